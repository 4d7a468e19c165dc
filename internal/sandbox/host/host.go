// Package host is the sandbox driver without a sandbox: it runs programs as this user on
// this machine, with rlimits, and kills them with all their child processes. It must be
// allowed in the configuration and chosen by name, and is never a fallback.
//
// A [Child] is also for drivers whose guests report their end like a child process: the
// bridge on stdin and stdout, the end of stderr, and the exit status.
package host

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Driver runs guests on the host machine itself.
type Driver struct {
	// Work is the folder in which programs run; the system's folder for temporary files
	// if empty.
	Work string
	// Owner labels the started processes; see [proc.Owner].
	Owner string
	// Environ is this process's environment, from which programs get harmless variables
	// (PATH, HOME, LANG …).
	Environ []string
}

// Name returns "host".
func (d *Driver) Name() string { return "host" }

// Probe reports that the driver is available, and which limits it does not enforce.
func (d *Driver) Probe(context.Context) sandbox.Probe {
	if runtime.GOOS == "windows" {
		return sandbox.Probe{State: sandbox.Unsupported, Reason: "guests run on Linux and other Unix systems", Fix: "use the js or py engine, or docker"}
	}
	p := sandbox.Probe{
		State: sandbox.Available, Isolation: "none", Version: runtime.GOOS,
		Holds: map[sandbox.Limit]string{
			sandbox.LimitWall:   "SIGKILL of the process group",
			sandbox.LimitCPU:    "RLIMIT_CPU",
			sandbox.LimitMemory: "RLIMIT_DATA",
		},
		Lacks: map[sandbox.Limit]string{
			sandbox.LimitPIDs:    "RLIMIT_NPROC counts all processes of the user",
			sandbox.LimitDisk:    "programs write where this user may",
			sandbox.LimitNetwork: "programs have this machine's network",
		},
	}
	p.Languages = guest.Languages(func(program string) bool {
		_, err := exec.LookPath(program)
		return err == nil
	})
	return p
}

// Start starts the guest as a child of this process.
func (d *Driver) Start(_ context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	work, err := proc.MkdirTemp(d.Work, "h")
	if err != nil {
		return nil, unavailable("a folder for the program cannot be made", err)
	}
	b := &instance{work: work}
	env := map[string]string{guest.WorkEnv: work, guest.RlimitEnv: "1"}
	for _, entry := range s.Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	b.Child, err = StartChild(proc.Spec{
		Command: s.Guest, Args: s.Args, Env: proc.Environ(d.Environ, env), Dir: work, Owner: d.Owner,
	})
	if err != nil {
		os.RemoveAll(work)
		return nil, unavailable("the guest cannot be started", err)
	}
	return b, nil
}

func unavailable(what string, err error) error {
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the host sandbox: %s: %w", what, err)
	return e.WithCLIHint("toolroom doctor shows what is missing")
}

// instance is one program on the host machine.
type instance struct {
	*Child
	work string
	once sync.Once
}

// killGrace is the time in which the guest must end the processes that it started.
const killGrace = 150 * time.Millisecond

func (b *instance) Kill(context.Context) error {
	b.Stop(killGrace)
	var err error
	b.once.Do(func() { err = os.RemoveAll(b.work) })
	return err
}

func (b *instance) Isolation() string { return "none" }

func (b *instance) Held() map[sandbox.Limit]string {
	return (&Driver{}).Probe(context.Background()).Holds
}

// Clean removes the folders of processes that have died.
func (d *Driver) Clean(_ context.Context, dry bool) ([]sandbox.Leftover, error) {
	return proc.CleanFolders(d.Work, dry), nil
}
