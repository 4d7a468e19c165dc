package bridge

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/toolroom/toolroom"
)

const (
	// lineWindow is how many bytes one side of a line may send that the other has
	// not read, in bytes; maxLines how many lines a program may have at once.
	lineWindow = 128 << 10
	maxLines   = 64
	// lineChunk is the most that one frame carries of a line.
	lineChunk = 32 << 10
)

// Lines are the connections of a program to the outside: bytes in frames of kind
// [Out] from the guest and [In] from the host. A line that nobody reads holds
// neither the others nor the frames around it.
type Lines struct {
	send func(id uint64, body Map) error

	mu    sync.Mutex
	lines map[uint64]*Line
	last  uint64
	ended bool
}

// NewLines makes the lines of one run, without any. send sends a frame of the
// side's kind; it may block.
func NewLines(send func(id uint64, body Map) error) *Lines {
	return &Lines{send: send, lines: map[uint64]*Line{}}
}

// Open asks the host to connect to host:port. The host's refusal is a
// [*toolroom.Error].
func (l *Lines) Open(ctx context.Context, address string) (*Line, error) {
	l.mu.Lock()
	l.last++
	line := l.add(l.last)
	l.mu.Unlock()
	if err := l.send(line.id, Map{{"to", address}}); err != nil {
		line.drop()
		return nil, err
	}
	select {
	case err := <-line.answer:
		if err != nil {
			line.drop()
			return nil, err
		}
		return line, nil
	case <-ctx.Done():
		line.Close()
		return nil, context.Cause(ctx)
	}
}

// add makes a line; the caller holds mu.
func (l *Lines) add(id uint64) *Line {
	line := &Line{all: l, id: id, room: lineWindow, answer: make(chan error, 1), done: make(chan struct{})}
	line.changed.L = &line.mu
	l.lines[id] = line
	if l.ended {
		line.shut()
	}
	return line
}

// take takes a frame of the other side, which may open a line. The error is a
// breach of the protocol.
func (l *Lines) take(f Frame) (opened *Line, err error) {
	l.mu.Lock()
	line := l.lines[f.ID]
	if to := f.Body.Text("to"); to != "" {
		defer l.mu.Unlock()
		if line != nil || len(l.lines) >= 2*maxLines {
			return nil, broken("the line %d is open already, or one of too many", f.ID)
		}
		return l.add(f.ID), nil
	}
	l.mu.Unlock()
	if line == nil {
		return nil, nil // it was closed while the frame was under way
	}
	return nil, line.take(f.Body)
}

// count is how many lines there are.
func (l *Lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

// Take takes a frame of kind [In]. The error is a breach of the protocol.
func (l *Lines) Take(f Frame) error {
	_, err := l.take(f)
	return err
}

// Close ends all lines, without a word to the other side.
func (l *Lines) Close() {
	l.mu.Lock()
	l.ended = true
	all := l.lines
	l.lines = map[uint64]*Line{}
	l.mu.Unlock()
	for _, line := range all {
		line.shut()
	}
}

// Line is one connection. It may be read and written at the same time.
type Line struct {
	all    *Lines
	id     uint64
	answer chan error

	mu      sync.Mutex
	changed sync.Cond
	in      []byte // that came, and is not read
	read    int    // bytes that the other side does not know to be read
	room    int    // bytes that may be sent
	whole   bool   // no more will come
	said    bool   // no more will be sent
	closed  bool
	done    chan struct{} // closed with it
}

func (l *Line) take(b Map) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.changed.Broadcast()
	switch data := bytesAt(b, "data"); {
	case len(data) > 0:
		if len(l.in)+len(data) > lineWindow || l.whole {
			return broken("a line carries more than it may")
		}
		l.in = append(l.in, data...)
	case b.Int("taken") > 0:
		taken := b.Int("taken")
		if taken > int64(lineWindow-l.room) {
			return broken("more of a line is taken than was sent")
		}
		l.room += int(taken)
	case b.Get("end") == true:
		l.whole = true
	case b.Get("open") == true:
		l.reply(nil)
	case b.Get("error") != nil:
		failed, _ := b.Get("error").(Map)
		l.reply(readError(failed))
	default:
		l.end()
	}
	return nil
}

// reply ends the wait of who opened the line; only the first one counts.
func (l *Line) reply(err error) {
	select {
	case l.answer <- err:
	default:
	}
}

// Read reads what the other side has sent.
func (l *Line) Read(p []byte) (int, error) {
	l.mu.Lock()
	for len(l.in) == 0 && !l.whole && !l.closed {
		l.changed.Wait()
	}
	n := copy(p, l.in)
	l.in = l.in[n:]
	whole := l.whole
	l.read += n
	tell := 0
	if l.read >= lineWindow/4 && !l.closed {
		tell, l.read = l.read, 0
	}
	l.mu.Unlock()
	switch {
	case n == 0 && whole:
		return 0, io.EOF
	case n == 0 && len(p) > 0:
		return 0, io.ErrClosedPipe
	}
	if tell > 0 {
		_ = l.all.send(l.id, Map{{"taken", int64(tell)}}) // a bridge that has ended ends the line too
	}
	return n, nil
}

// Write sends p, as fast as the other side reads it.
func (l *Line) Write(p []byte) (sent int, err error) {
	for len(p) > 0 {
		l.mu.Lock()
		for l.room == 0 && !l.closed {
			l.changed.Wait()
		}
		n := min(len(p), l.room, lineChunk)
		l.room -= n
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return sent, io.ErrClosedPipe
		}
		if err := l.all.send(l.id, Map{{"data", p[:n]}}); err != nil {
			return sent, err
		}
		sent, p = sent+n, p[n:]
	}
	return sent, nil
}

// CloseWrite tells the other side that no more will come.
func (l *Line) CloseWrite() error {
	l.mu.Lock()
	l.said = true
	l.mu.Unlock()
	return l.all.send(l.id, Map{{"end", true}})
}

// Close ends the line. The other side is told where not all has been said: what it
// has not read of this side is lost then.
func (l *Line) Close() error {
	l.mu.Lock()
	complete := l.said && l.whole
	l.mu.Unlock()
	if !l.drop() || complete {
		return nil
	}
	return l.all.send(l.id, Map{{"close", true}})
}

// drop takes the line out, and tells whether it was there.
func (l *Line) drop() bool {
	l.all.mu.Lock()
	was := l.all.lines[l.id] == l
	if was {
		delete(l.all.lines, l.id)
	}
	l.all.mu.Unlock()
	l.shut()
	return was
}

func (l *Line) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
}

// end marks the line as closed; the caller holds mu.
func (l *Line) end() {
	if l.closed {
		return
	}
	l.closed = true
	close(l.done)
	l.changed.Broadcast()
	l.reply(io.ErrClosedPipe)
}

// Carry carries bytes between a line and a connection, whose words are read from
// near, until both have said all, and closes both.
func (l *Line) Carry(near io.Reader, conn io.WriteCloser) {
	defer l.Close()
	go func() {
		<-l.done
		conn.Close() // which ends what waits for it
	}()
	said := make(chan struct{})
	go func() {
		defer close(said)
		if _, err := io.Copy(l, near); err != nil {
			l.Close() // it broke off
			return
		}
		_ = l.CloseWrite()
	}()
	if _, err := io.Copy(conn, l); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		<-said
	}
}

// accept tells the guest that it is connected, and carries.
func (l *Line) accept(far net.Conn) {
	if err := l.all.send(l.id, Map{{"open", true}}); err != nil {
		far.Close()
		l.drop()
		return
	}
	l.Carry(far, far)
}

// refuse tells the guest why there is no connection.
func (l *Line) refuse(err error) {
	_ = l.all.send(l.id, Map{{"error", errorBody(toolroom.AsError(err))}})
	l.drop() // only now: refusals that are not read count too
}
