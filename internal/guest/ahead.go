//go:build unix

package guest

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
)

// prepareAhead prepares for a program that will arrive later, see [AheadEnv]. First it
// runs a shell that does nothing, so that the program does not wait for what the
// sandbox does only for its first process; under gVisor that is some 10 ms of 25. Then
// it prepares an interpreter, as for [HoldEnv]. begun is closed when the program has
// arrived.
func (r *run) prepareAhead(ctx context.Context, begun <-chan struct{}) {
	r.warmUp(ctx, begun)
	close(r.prepared)
	<-ctx.Done() // child processes end with this goroutine's thread
}

func (r *run) warmUp(ctx context.Context, begun <-chan struct{}) {
	if isClosed(begun) {
		return
	}
	cmd := exec.Command("sh", "-c", ":")
	cmd.SysProcAttr = childAttributes()
	if r.children.start(cmd) == nil { // a sandbox without a shell may run other programs
		r.children.wait(cmd)
	}
	if !isClosed(begun) {
		r.ahead, _ = r.prepare(ctx) // without a prepared interpreter, the program starts its own
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// takePrepared returns the prepared interpreter if it suits this program. If it does
// not, [run.discardPrepared] ends it.
func (r *run) takePrepared() *interpreterProcess {
	if r.program.Language != aheadLanguage() || len(r.program.Env) > 0 {
		return nil
	}
	<-r.prepared
	if r.ahead != nil && r.ahead.hasEnded() {
		r.ahead.end()
		r.ahead = nil // the program starts its own
	}
	return r.ahead
}

// hasEnded reports whether a waiting interpreter has ended. It sends nothing while it waits.
func (i *interpreterProcess) hasEnded() bool {
	conn, ok := i.stream.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	gone := true
	_ = raw.Control(func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = !errors.Is(err, syscall.EAGAIN)
	})
	return gone
}

// discardPrepared ends a prepared interpreter that does not suit the program. It is called
// after the program has started, so as not to delay it.
func (r *run) discardPrepared() {
	if <-r.prepared; r.ahead != nil {
		r.ahead.end()
	}
}
