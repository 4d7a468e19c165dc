//go:build unix

package guest

import (
	"context"
	"os/exec"
)

// wait prepares for a program that is not near, as [AheadEnv] asks. First a shell
// does nothing: what the sandbox does once, at the first process in it, is then
// not in the time of the program; under gVisor that is some 10 ms of 25. Then an
// interpreter is made ready, as for [HoldEnv]. begun is closed when the program is
// there.
func (r *run) wait(ctx context.Context, begun <-chan struct{}) {
	r.rehearse(ctx, begun)
	close(r.prepared)
	<-ctx.Done() // what was started ends with its thread, and that with this function
}

func (r *run) rehearse(ctx context.Context, begun <-chan struct{}) {
	if isClosed(begun) {
		return
	}
	cmd := exec.Command("sh", "-c", ":")
	cmd.SysProcAttr = childAttributes()
	if r.children.start(cmd) == nil { // a sandbox without a shell runs other things
		r.children.wait(cmd)
	}
	if !isClosed(begun) {
		r.ahead, _ = r.prepare(ctx) // without one, the program starts its own
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

// take gives the interpreter that was prepared, if it is for this program. If it
// is not, [run.release] ends it.
func (r *run) take() *interpreting {
	if r.program.Language != aheadLanguage || len(r.program.Env) > 0 {
		return nil
	}
	<-r.prepared
	return r.ahead
}

// release ends the interpreter that was prepared for another program than the one
// that has begun by now: not sooner, since that program is waited for.
func (r *run) release() {
	if <-r.prepared; r.ahead != nil {
		r.ahead.end()
	}
}
