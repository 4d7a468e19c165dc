package bridge

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

const (
	// lineWindow is how many bytes one side of a line may send that the other has
	// not read; maxLines is how many lines a program may have at once.
	lineWindow = 128 << 10
	maxLines   = 64
	// lineChunk is the largest number of bytes of a line in one frame.
	lineChunk = 32 << 10
)

// Lines are the network connections of a program. Their bytes travel in frames
// of kind [Out] from the guest and [In] from the server. A line whose reader is
// slow blocks neither the other lines nor other frames.
type Lines struct {
	send func(id uint64, body Map) error

	mu      sync.Mutex
	lines   map[uint64]*Line
	last    uint64
	ended   bool
	done    chan struct{}  // closed when ended is set
	sending sync.WaitGroup // grows only while ended is false
}

// NewLines returns the lines of one run, without any. It uses send to send a
// frame of the side's own kind; send may block.
func NewLines(send func(id uint64, body Map) error) *Lines {
	return &Lines{send: send, lines: map[uint64]*Line{}, done: make(chan struct{})}
}

// write sends a frame, unless the run has ended.
func (l *Lines) write(id uint64, body Map) error {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return io.ErrClosedPipe
	}
	l.sending.Add(1)
	l.mu.Unlock()
	defer l.sending.Done()
	return l.send(id, body)
}

// Open asks the server to connect to host:port. If the server refuses, the error
// is a [*toolroom.Error].
func (l *Lines) Open(ctx context.Context, address string) (*Line, error) {
	l.mu.Lock()
	l.last++
	line := l.add(l.last)
	l.mu.Unlock()
	if err := l.write(line.id, Map{{"to", address}}); err != nil {
		line.remove()
		return nil, err
	}
	select {
	case err := <-line.answer:
		if err != nil {
			line.remove()
			return nil, err
		}
		return line, nil
	case <-ctx.Done():
		line.Close()
		return nil, context.Cause(ctx)
	}
}

// add adds a line; the caller must hold mu.
func (l *Lines) add(id uint64) *Line {
	line := &Line{lines: l, id: id, sendWindow: lineWindow, answer: make(chan error, 1), done: make(chan struct{})}
	line.changed.L = &line.mu
	l.lines[id] = line
	if l.ended {
		line.markClosed()
	}
	return line
}

// handleFrame handles a frame of the other side, which may open a line. An error is a
// breach of the protocol.
func (l *Lines) handleFrame(f Frame) (opened *Line, err error) {
	l.mu.Lock()
	line := l.lines[f.ID]
	if to := f.Body.Text("to"); to != "" {
		defer l.mu.Unlock()
		if line != nil || len(l.lines) >= 2*maxLines {
			return nil, protocolError("the line %d is open already, or one of too many", f.ID)
		}
		return l.add(f.ID), nil
	}
	l.mu.Unlock()
	if line == nil {
		return nil, nil // it was closed while the frame was under way
	}
	return nil, line.handle(f.Body)
}

// count returns the number of lines.
func (l *Lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

// Handle handles a frame of kind [In]. An error is a breach of the protocol.
func (l *Lines) Handle(f Frame) error {
	_, err := l.handleFrame(f)
	return err
}

// Close closes all lines without notifying the other side. No frame is begun afterwards.
func (l *Lines) Close() { l.end(false) }

// finish is Close for a run that ended well: lines whose other side has ended its stream
// first deliver what they have received, for at most [answerTimeout].
func (l *Lines) finish() { l.end(true) }

func (l *Lines) end(finish bool) {
	l.mu.Lock()
	if !l.ended {
		l.ended = true
		close(l.done)
	}
	all := l.lines
	l.lines = map[uint64]*Line{}
	l.mu.Unlock()
	for _, line := range all {
		if finish && line.hasReadEnded() {
			time.AfterFunc(answerTimeout, line.markClosed)
		} else {
			line.markClosed()
		}
	}
}

// Line is one connection. It is safe to read and write at the same time.
type Line struct {
	lines  *Lines
	id     uint64
	answer chan error

	mu         sync.Mutex
	changed    sync.Cond
	in         []byte // received, not yet read
	read       int    // bytes read that the other side has not been notified of
	sendWindow int    // bytes that may be sent
	readEnded  bool   // the other side has ended its stream
	writeEnded bool   // this side has ended its stream
	closed     bool
	done       chan struct{} // closed with the line
}

func (l *Line) handle(b Map) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.changed.Broadcast()
	switch data := bytesAt(b, "data"); {
	case len(data) > 0:
		if len(l.in)+len(data) > lineWindow || l.readEnded {
			return protocolError("a line carries more than its window allows")
		}
		l.in = append(l.in, data...)
	case b.Int("taken") > 0:
		taken := b.Int("taken")
		if taken > int64(lineWindow-l.sendWindow) {
			return protocolError("more bytes of a line are acknowledged than were sent")
		}
		l.sendWindow += int(taken)
	case b.Get("end") == true:
		l.readEnded = true
	case b.Get("open") == true:
		l.reply(nil)
	case b.Get("error") != nil:
		failed, _ := b.Get("error").(Map)
		l.reply(readError(failed))
	default:
		l.markClosedLocked()
	}
	return nil
}

// hasReadEnded reports whether the other side has ended its stream.
func (l *Line) hasReadEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.readEnded
}

// reply ends the wait in Open; only the first reply counts.
func (l *Line) reply(err error) {
	select {
	case l.answer <- err:
	default:
	}
}

// Read reads bytes that the other side has sent.
func (l *Line) Read(p []byte) (int, error) {
	l.mu.Lock()
	for len(l.in) == 0 && !l.readEnded && !l.closed {
		l.changed.Wait()
	}
	n := copy(p, l.in)
	l.in = l.in[n:]
	ended := l.readEnded
	l.read += n
	ack := 0
	if l.read >= lineWindow/4 && !l.closed {
		ack, l.read = l.read, 0
	}
	l.mu.Unlock()
	switch {
	case n == 0 && ended:
		return 0, io.EOF
	case n == 0 && len(p) > 0:
		return 0, io.ErrClosedPipe
	}
	if ack > 0 {
		_ = l.lines.write(l.id, Map{{"taken", int64(ack)}}) // if the bridge has ended, so has the line
	}
	return n, nil
}

// Write sends p, and blocks while the other side has not read enough.
func (l *Line) Write(p []byte) (sent int, err error) {
	for len(p) > 0 {
		l.mu.Lock()
		for l.sendWindow == 0 && !l.closed {
			l.changed.Wait()
		}
		n := min(len(p), l.sendWindow, lineChunk)
		l.sendWindow -= n
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return sent, io.ErrClosedPipe
		}
		if err := l.lines.write(l.id, Map{{"data", p[:n]}}); err != nil {
			return sent, err
		}
		sent, p = sent+n, p[n:]
	}
	return sent, nil
}

// CloseWrite notifies the other side that no more bytes will come.
func (l *Line) CloseWrite() error {
	l.mu.Lock()
	l.writeEnded = true
	l.mu.Unlock()
	return l.lines.write(l.id, Map{{"end", true}})
}

// Close closes the line. If either side has not ended its stream, Close notifies
// the other side, which then loses the bytes that it has not read.
func (l *Line) Close() error {
	l.mu.Lock()
	complete := l.writeEnded && l.readEnded
	l.mu.Unlock()
	if !l.remove() || complete {
		return nil
	}
	return l.lines.write(l.id, Map{{"close", true}})
}

// remove removes the line, and reports whether it was there.
func (l *Line) remove() bool {
	l.lines.mu.Lock()
	was := l.lines.lines[l.id] == l
	if was {
		delete(l.lines.lines, l.id)
	}
	l.lines.mu.Unlock()
	l.markClosed()
	return was
}

// markClosed marks the line as closed.
func (l *Line) markClosed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.markClosedLocked()
}

// markClosedLocked is markClosed for callers that hold mu.
func (l *Line) markClosedLocked() {
	if l.closed {
		return
	}
	l.closed = true
	close(l.done)
	l.changed.Broadcast()
	l.reply(io.ErrClosedPipe)
}

// Relay copies bytes in both directions between a line and conn, until both directions have
// ended, and then closes both. It reads conn through near.
func (l *Line) Relay(near io.Reader, conn io.WriteCloser) {
	defer l.Close()
	go func() {
		<-l.done
		conn.Close() // which unblocks its readers and writers
	}()
	sent := make(chan struct{}) // closed when near has been copied
	go func() {
		defer close(sent)
		if _, err := io.Copy(l, near); err != nil {
			l.Close() // the connection broke
			return
		}
		_ = l.CloseWrite()
	}()
	if _, err := io.Copy(conn, l); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		select {
		case <-sent:
		case <-l.lines.done: // the run is over, so nobody reads what conn sends
		}
	}
}

// accept tells the guest that it is connected, and copies bytes until both sides have ended.
func (l *Line) accept(far net.Conn) {
	if err := l.lines.write(l.id, Map{{"open", true}}); err != nil {
		far.Close()
		l.remove()
		return
	}
	l.Relay(far, far)
}

// refuse tells the guest why the connection was refused.
func (l *Line) refuse(err error) {
	_ = l.lines.write(l.id, Map{{"error", errorBody(toolroom.AsError(err))}})
	l.remove() // only now, so that refusals that the guest has not read count as lines, too
}
