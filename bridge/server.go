package bridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/panics"
)

// Handler is a call handler: it answers a program's requests and receives its
// notifications. Requests come from many goroutines at once, and must return
// soon after ctx ends. Notifications (Print, Progress, Log) come from a single
// goroutine. An error that is a [*toolroom.Error] reaches the program unchanged,
// except for its cause.
type Handler interface {
	Call(ctx context.Context, tool string, arguments Map) (Value, error)
	Chain(ctx context.Context, steps []Value) (Value, error)
	Search(ctx context.Context, query string, limit int) (Value, error)
	Describe(ctx context.Context, tool, level string) (Value, error)
	// Put stores bytes as an artifact.
	Put(ctx context.Context, name, mediaType string, data []byte) (Handle, error)
	// Get reads a part of an artifact; h holds the size of the whole. If length is
	// 0, Get returns as much as the handler returns at once.
	Get(ctx context.Context, handle string, offset, length int64) (data []byte, h Handle, err error)

	Print(stream, text string)
	Progress(done, total float64, message string)
	Log(level, message string, fields Map)
}

// NoTools is the handler of a program that needs no tools, which a guest may ask for all the
// same.
type NoTools struct {
	// Err, if not nil, is the error of every request.
	Err error
}

func (n NoTools) Call(context.Context, string, Map) (Value, error) { return nil, n.err() }

func (n NoTools) Chain(context.Context, []Value) (Value, error) { return nil, n.err() }

func (n NoTools) Search(context.Context, string, int) (Value, error) { return nil, n.err() }

func (n NoTools) Describe(context.Context, string, string) (Value, error) { return nil, n.err() }

func (n NoTools) Put(context.Context, string, string, []byte) (Handle, error) {
	return Handle{}, n.err()
}

func (n NoTools) Get(context.Context, string, int64, int64) ([]byte, Handle, error) {
	return nil, Handle{}, n.err()
}
func (NoTools) Print(string, string)              {}
func (NoTools) Progress(float64, float64, string) {}
func (NoTools) Log(string, string, Map)           {}

func (n NoTools) err() error {
	if n.Err != nil {
		return n.Err
	}
	return toolroom.Errorf(toolroom.CodeUnsupported, "this run has no tools")
}

// Dialer is a [Handler] through which a program may connect to the outside.
type Dialer interface {
	Handler
	// Dial connects to host:port, or returns why the program may not.
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// Options configures the server's side of a connection.
type Options struct {
	// Token is the token that the guest's hello must carry. It is empty if only
	// the guest can reach the stream.
	Token []byte
	// Grace is how long a cancelled run may take to end by itself, 100 ms if zero.
	Grace time.Duration
	// Direct makes the caller of [Conn.Run] read the stream itself, so that no
	// frame has to wake another goroutine. Use it for streams whose Close ends a
	// Read under way. Between runs the end of such a stream goes unnoticed.
	Direct bool
}

// DefaultGrace is the default of [Options.Grace].
const DefaultGrace = 100 * time.Millisecond

// Conn is the server's side of a stream on which one guest runs programs, one
// after the other. If Run returns an error, the caller must close the Conn and
// kill the guest.
type Conn struct {
	stream  io.ReadWriteCloser
	wire    *Wire
	grace   time.Duration
	version int
	guest   string
	alive   bool          // the guest is told that the server runs
	frames  chan incoming // nil if the caller of Run reads
	ended   chan struct{}
	closed  chan struct{}
	once    sync.Once
}

type incoming struct {
	frame Frame
	size  int
	err   error
}

// Accept waits for the guest's hello. It closes the stream if it does not accept
// the guest or ctx ends first.
func Accept(ctx context.Context, stream io.ReadWriteCloser, o Options) (*Conn, error) {
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	c := &Conn{stream: stream, wire: NewWire(stream), grace: o.Grace, ended: make(chan struct{}), closed: make(chan struct{})}
	if !o.Direct {
		c.frames = make(chan incoming)
		go c.readAll()
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // fails only if the stream has already ended
	in, err := c.next()
	if !stop() {
		err = context.Cause(ctx) // the connection is closed, or will be
	}
	if err == nil {
		err = c.checkHello(in.frame, o.Token)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("no guest connected over the bridge: %w", err)
	}
	if c.alive, _ = in.frame.Body.Get("alive").(bool); c.alive {
		go c.stayAlive()
	}
	return c, nil
}

// AlivePeriod is how often a server tells a guest that asks for it that it still runs.
const AlivePeriod = 5 * time.Second

// stayAlive tells the guest until the connection ends. A guest whose stream does not end
// with its server cannot know otherwise.
func (c *Conn) stayAlive() {
	tick := time.NewTicker(AlivePeriod)
	defer tick.Stop()
	for {
		select {
		case <-c.closed:
			return
		case <-c.ended:
			return
		case <-tick.C:
			if c.wire.Write(Frame{Kind: Alive}) != nil {
				return
			}
		}
	}
}

func (c *Conn) checkHello(f Frame, token []byte) error {
	refuse := func(reason string) error {
		_ = c.wire.Write(Frame{Kind: Refuse, Body: Map{{"reason", reason}}}) // the connection is closed either way
		return protocolError("%s", reason)
	}
	if f.Kind != Hello {
		return refuse(fmt.Sprintf("the guest sent %s instead of hello", f.Kind))
	}
	if subtle.ConstantTimeCompare(f.Token, token) != 1 {
		return refuse("the hello carries the wrong token")
	}
	versions, _ := f.Body.Get("versions").([]Value)
	for _, v := range versions {
		if n, ok := v.(int64); ok && n <= Version {
			c.version = max(c.version, int(n))
		}
	}
	if c.version <= 0 {
		return refuse(fmt.Sprintf("the server speaks version %d of the bridge, the guest %v", Version, versions))
	}
	c.guest = truncate(f.Body.Text("guest"), 128)
	return nil
}

// Guest returns the name that the guest gave in its hello.
func (c *Conn) Guest() string { return c.guest }

// Close ends the connection. It does not end the guest, which is up to the code
// that started it.
func (c *Conn) Close() error {
	var err error
	c.once.Do(func() {
		close(c.closed)
		err = c.stream.Close()
	})
	return err
}

func (c *Conn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// Ended returns a channel that is closed when the guest's stream has ended or
// broken, even while no program runs. With [Options.Direct] it is never closed.
func (c *Conn) Ended() <-chan struct{} { return c.ended }

// readAll reads the stream for the life of the connection.
func (c *Conn) readAll() {
	for {
		f, size, err := c.wire.Read()
		if err != nil {
			close(c.ended)
		}
		select {
		case c.frames <- incoming{f, size, err}:
		case <-c.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

func (c *Conn) next() (in incoming, err error) {
	if c.frames == nil {
		in.frame, in.size, in.err = c.wire.Read()
		if in.err != nil && c.isClosed() {
			in.err = ErrGone
		}
	} else {
		select {
		case in = <-c.frames:
		case <-c.closed:
			in.err = ErrGone
		}
	}
	if errors.Is(in.err, io.EOF) {
		in.err = ErrGone
	}
	return in, in.err
}

// ErrNotBegun means that the guest had gone before it could read the program, so that
// nothing of it has run.
var ErrNotBegun = errors.New("the guest did not take the program")

// ErrGone means that the guest ended its stream before the run was over.
var ErrGone = errors.New("the guest ended its stream before the run was over")

// MaxExcessRequests is how many requests beyond its limit a guest may send before it counts
// as hostile. Each is answered with budget_exceeded.
const MaxExcessRequests = 1000

// Run runs one program. It returns when the guest has reported how the program
// ended and none of its requests is still being answered. When ctx ends, Run
// tells the guest to stop. If the guest stops within the grace period, the
// outcome's failure is cancelled, else the error is ctx's cause. After any error
// the guest must be killed. If h is nil, the program's requests are refused and its
// output is dropped.
func (c *Conn) Run(ctx context.Context, p Program, h Handler) (*Outcome, error) {
	if h == nil {
		h = NoTools{}
	}
	p.Limits = p.Limits.WithDefaults()
	token := make([]byte, 16)
	_, _ = rand.Read(token) // documented to never fail
	c.wire.token.Store(&token)
	asking, stop := context.WithCancel(ctx)
	r := &run{conn: c, handler: h, limits: p.Limits, token: token, ctx: asking, slots: make(chan struct{}, p.Limits.Parallel), started: make(chan struct{})}
	r.dialer, _ = h.(Dialer)
	r.lines = NewLines(func(id uint64, body Map) error {
		r.writing.Add(1)
		defer r.writing.Add(-1)
		return c.wire.Write(Frame{Kind: In, ID: id, Token: token, Body: body})
	})
	end := r.forwardCancel(ctx)
	out, err := r.exchange(ctx, p)
	if err == nil {
		r.lines.finish()
	} else {
		r.lines.Close()
	}
	stop() // no caller waits for open requests any more
	// A guest that does not read its answers would block their writers for ever.
	if err != nil {
		c.Close()
	}
	end()
	if err == nil && c.isClosed() && ctx.Err() != nil {
		return nil, context.Cause(ctx) // it answered just as its time ran out
	}
	if (r.asked > 0 || r.dialer != nil) && !r.waitAnswered() && err == nil {
		return nil, protocolError("the guest did not read the answers to its requests")
	}
	return out, err
}

// answerTimeout bounds the time to send an answer to a guest that has ended its run. It is
// long because the sender may have to wait for a processor.
const answerTimeout = 2 * time.Second

// waitAnswered waits until all requests have been answered and no frame of a line is
// being sent. If the guest does not read one, waitAnswered closes the stream and
// returns false.
func (r *run) waitAnswered() bool {
	var stuck atomic.Bool
	timer := time.AfterFunc(answerTimeout, func() {
		if r.writing.Load() > 0 {
			stuck.Store(true)
			r.conn.Close()
		}
	})
	defer timer.Stop()
	r.answering.Wait()
	r.lines.sending.Wait()
	return !stuck.Load()
}

type run struct {
	conn    *Conn
	handler Handler
	limits  Limits
	token   []byte
	ctx     context.Context // of the requests
	slots   chan struct{}   // requests answered at once
	dialer  Dialer          // nil if the program may not connect
	started chan struct{}   // closed when the program has been sent
	began   time.Time
	lines   *Lines

	answering sync.WaitGroup
	asked     int
	received  int64
	printed   int64
	writing   atomic.Int32          // results that are being sent
	broken    atomic.Pointer[error] // a result that could not be sent
}

// exchange sends the program, and handles the guest's frames until one ends the
// run.
func (r *run) exchange(ctx context.Context, p Program) (*Outcome, error) {
	if err := r.conn.wire.Write(Frame{Kind: Start, Token: r.token, Body: p.body(r.conn.version)}); err != nil {
		return nil, cmp.Or(context.Cause(ctx), fmt.Errorf("%w: %w", ErrNotBegun, err))
	}
	close(r.started)
	r.began = time.Now()
	for {
		in, err := r.conn.next()
		if r.received == 0 && !r.conn.alive && closedUnread(err) {
			err = fmt.Errorf("%w: %w", ErrNotBegun, err)
		}
		if err != nil {
			return nil, cmp.Or(context.Cause(ctx), err)
		}
		if out, err := r.handle(in); out != nil || err != nil {
			return out, err
		}
	}
}

// closedUnread reports whether err, of the first read after the program was sent, means that the
// other end closed its socket before it had read all data, so that it cannot have read the whole
// program. Over TCP this is unknown: there a restarted machine or a network device can reset a
// connection long after the program has begun.
func closedUnread(err error) bool {
	var op *net.OpError
	return errors.Is(err, syscall.ECONNRESET) && !(errors.As(err, &op) && strings.HasPrefix(op.Net, "tcp"))
}

// forwardCancel sends cancel to the guest when ctx ends, and closes the connection if the
// guest does not stop in time. The caller must call end when the run is over;
// after end returns, nothing more is sent for this run.
func (r *run) forwardCancel(ctx context.Context) (end func()) {
	over, done := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		closed := make(chan struct{})
		timer := time.AfterFunc(r.conn.grace, func() {
			defer close(closed)
			_ = r.conn.Close() // fails only if the stream has already ended
		})
		defer func() {
			if !timer.Stop() {
				<-closed // not later: the next run would lose the connection
			}
		}()
		select {
		case <-r.started: // a guest ignores a cancel that precedes its program
		case <-over:
			return
		}
		// If the guest reads nothing, this blocks until the connection is closed.
		_ = r.conn.wire.Write(Frame{Kind: Cancel, Token: r.token, Body: Map{{"reason", context.Cause(ctx).Error()}}})
		<-over
	})
	return func() {
		close(over)
		if !stop() {
			<-done
		}
	}
}

// handle handles one frame; a non-nil result ends the run.
func (r *run) handle(in incoming) (*Outcome, error) {
	f := in.frame
	if subtle.ConstantTimeCompare(f.Token, r.token) != 1 {
		return nil, protocolError("a %s frame with the token of another run", f.Kind)
	}
	if r.received += int64(in.size); r.received > r.limits.Bytes {
		return nil, OverLimit("bytes", "the program sent more than %d bytes in all, to its tools and as output", r.limits.Bytes)
	}
	switch f.Kind {
	case Call, Chain, Search, Describe, Put, Get:
		return nil, r.request(f)
	case Out:
		return nil, r.line(f)
	case Print:
		text := f.Body.Text("text")
		if r.printed += int64(len(text)); r.printed > r.limits.Output {
			return nil, OverLimit("output", "the program printed more than %d bytes", r.limits.Output)
		}
		stream := f.Body.Text("stream")
		if stream != "stderr" {
			stream = "stdout"
		}
		r.handler.Print(stream, text)
	case Progress:
		r.handler.Progress(float(f.Body.Get("done")), float(f.Body.Get("total")), truncate(f.Body.Text("message"), maxMessage))
	case Log:
		fields, _ := f.Body.Get("fields").(Map)
		r.handler.Log(truncate(f.Body.Text("level"), 16), truncate(f.Body.Text("message"), maxMessage), fields)
	case Done:
		return r.outcome(f.Body.Get("value"), nil, f.Body), nil
	case Failed:
		return r.outcome(nil, readFailure(f.Body), f.Body), nil
	default:
		return nil, protocolError("a guest does not send %s", f.Kind)
	}
	return nil, nil
}

// line handles a frame of a line, and connects a new line.
func (r *run) line(f Frame) error {
	if r.dialer == nil {
		return protocolError("the guest opened a connection, but none are allowed")
	}
	line, err := r.lines.handleFrame(f)
	if line == nil || err != nil {
		return err
	}
	over := r.lines.count() > maxLines
	go func() {
		if over {
			line.refuse(toolroom.Errorf(toolroom.CodeResourceLimit, "a program may have at most %d connections at once", maxLines))
			return
		}
		far, err := r.dialer.Dial(r.ctx, truncate(f.Body.Text("to"), maxAddress))
		if err != nil {
			line.refuse(err)
			return
		}
		line.accept(far)
	}()
	return nil
}

// maxAddress is longer than any host:port.
const maxAddress = 512

func (r *run) outcome(v Value, failure *Failure, body Map) *Outcome {
	usage, _ := body.Get("usage").(Map)
	return &Outcome{
		Value: v, Failure: failure, State: bytesAt(body, "state"), Exit: int(body.Int("exit")),
		CPU: r.claimedCPU(usage), Memory: max(usage.Int("memory"), 0), Calls: r.asked, Received: r.received,
	}
}

// claimedCPU returns the CPU time that the guest says it has used, in milliseconds, but no more
// than it can have used. A hostile guest may say anything, and receipts record it.
func (r *run) claimedCPU(usage Map) int64 {
	most := time.Since(r.began).Milliseconds()*int64(runtime.NumCPU()) + 1
	return min(max(usage.Int("cpu"), 0), most)
}

// OverLimit returns the error of a run that was ended because it exceeded the
// limit that name names, as in the fields of [Limits].
func OverLimit(name, format string, args ...any) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeResourceLimit, format, args...).
		WithHint("have the program do less at a time, or ask for a higher limit of %s", name)
	e.Phase, e.Limit = toolroom.PhaseExecute, name
	return e
}

func (r *run) request(f Frame) error {
	if failed := r.broken.Load(); failed != nil {
		return *failed
	}
	r.asked++
	if r.asked > r.limits.Calls+MaxExcessRequests {
		return OverLimit("calls", "the program sent far more requests than its limit of %d calls", r.limits.Calls)
	}
	over := r.asked > r.limits.Calls
	r.answering.Go(func() {
		var v Value
		var err error
		if over {
			err = OverCalls(r.limits.Calls)
		} else {
			// A panic here would end the whole process because of one program's request.
			if panicked := panics.Catch(func() { v, err = r.answer(f) }); panicked != nil {
				v, err = nil, toolroom.Errorf(toolroom.CodeInternal, "answering the program failed: %w", panicked)
			}
		}
		r.reply(f, v, err)
	})
	return nil
}

// OverCalls returns the error for a request beyond the limit.
func OverCalls(limit int) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeBudgetExceeded, "this program has made all the %d tool calls that it may make", limit)
	return e.WithHint("make fewer calls, for example ask for larger pages, or ask for a higher limit of calls")
}

func (r *run) answer(f Frame) (Value, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-r.ctx.Done():
		return nil, context.Cause(r.ctx)
	}
	b := f.Body
	switch f.Kind {
	case Call:
		arguments, _ := b.Get("arguments").(Map)
		return r.handler.Call(r.ctx, b.Text("tool"), orEmptyMap(arguments))
	case Chain:
		steps, _ := b.Get("steps").([]Value)
		return r.handler.Chain(r.ctx, steps)
	case Search:
		return r.handler.Search(r.ctx, b.Text("query"), int(b.Int("limit")))
	case Describe:
		return r.handler.Describe(r.ctx, b.Text("tool"), b.Text("level"))
	case Put:
		data, mediaType, err := Content(b.Get("data"), b.Text("media_type"))
		if err != nil {
			return nil, err
		}
		return r.handler.Put(r.ctx, b.Text("name"), mediaType, data)
	default:
		data, h, err := r.handler.Get(r.ctx, b.Text("handle"), b.Int("offset"), b.Int("length"))
		return append(Map{{"data", data}}, h.members()...), err
	}
}

// reply answers a request. A result that does not fit a frame becomes an error;
// if the guest cannot be written to, the run ends.
func (r *run) reply(f Frame, v Value, err error) {
	if r.ctx.Err() != nil {
		return // report the program as cancelled, not its tool
	}
	r.writing.Add(1)
	defer r.writing.Add(-1)
	body := Map{{"value", v}}
	if err != nil {
		body = Map{{"error", errorBody(toolroom.AsError(err))}}
	}
	werr := r.conn.wire.Write(Frame{Kind: Result, ID: f.ID, Token: r.token, Body: body})
	var large *TooLargeError
	if errors.As(werr, &large) {
		e := toolroom.Errorf(toolroom.CodeResourceLimit, "the result of %s has %d bytes, more than the %d bytes that fit in a frame", f.Kind, large.Size, large.Limit)
		e = e.WithHint("ask the tool for less, or for a page at a time")
		werr = r.conn.wire.Write(Frame{Kind: Result, ID: f.ID, Token: r.token, Body: Map{{"error", errorBody(e)}}})
	}
	var unsendable *unsendableError
	if errors.As(werr, &unsendable) {
		e := toolroom.Errorf(toolroom.CodeInvalidOutput, "the result of %s cannot be given to the program: %w", f.Kind, unsendable.err)
		werr = r.conn.wire.Write(Frame{Kind: Result, ID: f.ID, Token: r.token, Body: Map{{"error", errorBody(e)}}})
	}
	if werr != nil && r.ctx.Err() == nil {
		werr = fmt.Errorf("answer the program: %w", werr)
		r.broken.Store(&werr)
	}
}

// float returns a number, or 0 for other values and for those that JSON cannot hold.
func float(v Value) float64 {
	switch n := v.(type) {
	case int64:
		return float64(n)
	case float64:
		if !math.IsNaN(n) && !math.IsInf(n, 0) {
			return n
		}
	}
	return 0
}
