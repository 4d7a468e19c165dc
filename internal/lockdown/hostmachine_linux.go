//go:build amd64 || arm64

package lockdown

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom/internal/proc"
)

// HostMachine starts programs on this machine. The zero value is ready to use. It
// must not be copied after first use. Its methods are safe for concurrent use.
type HostMachine struct {
	// Init is the command that becomes the init of a sandbox: the path of a binary and
	// the arguments with which it calls [Main]. The default is this binary with
	// [InitArg]; a smaller binary starts sooner.
	Init []string
	// ProbeCache records, for later processes, that a sandbox could be built here. If
	// a start then fails, the machine is probed again and the start is tried once
	// more. ProbeCache must be set before first use.
	ProbeCache ProbeCache

	mu       sync.Mutex
	found    *machine
	recalled bool // found was recorded by an earlier process
}

// machine is the result of the probe.
type machine struct {
	report   Report
	landlock int
	cgroups  cgroups
}

// Start starts a program. When the program ends or ctx is done, all processes that
// the program started are killed. Start returns a [*LayerError] if the machine
// lacks a layer of Spec.Minimum, and a [*LimitError] if a limit cannot be enforced
// as requested and BestEffort is not set.
func (h *HostMachine) Start(ctx context.Context, s Spec) (*Process, error) {
	p, err := h.start(ctx, s)
	var limit *LimitError
	if err != nil && !errors.As(err, &limit) && h.forget() {
		return h.start(ctx, s)
	}
	return p, err
}

func (h *HostMachine) start(ctx context.Context, s Spec) (*Process, error) {
	asked := s.Limits
	s = s.withDefaults()
	if err := s.validate(); err != nil {
		return nil, err
	}
	m := h.machine()
	for _, layer := range s.Minimum {
		if f := m.report.Find(layer); !f.Available {
			return nil, &LayerError{Finding: f}
		}
	}
	namespaces := m.report.Find(Namespaces).Available
	if s.AsServer && !namespaces {
		return nil, &LayerError{Finding: m.report.Find(Namespaces)}
	}
	held := m.heldLimits(asked, namespaces)
	if missing := gaps(held, s.Partly); len(missing) > 0 && !s.BestEffort {
		return nil, &LimitError{Limits: missing}
	}
	pl, err := m.plan(s, namespaces)
	if err != nil {
		return nil, err
	}
	p := &Process{plan: pl, limits: s.Limits, layers: m.layers(s, namespaces), held: held}
	if len(m.cgroups) > 0 {
		if p.group, err = m.cgroups.create(ownName(), s.Limits); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	if err := h.launch(p, s); err != nil {
		return nil, fmt.Errorf("sandbox: start %s: %w", s.Path, err)
	}
	stop := context.AfterFunc(ctx, p.kill)
	go func() { <-p.done; stop() }()
	return p, nil
}

// plan resolves s against the machine.
func (m machine) plan(s Spec, namespaces bool) (plan, error) {
	p := plan{
		Path: s.Path, Args: s.Args, Env: s.Env, Dir: s.Dir, Files: len(s.Files), UID: s.UID, GID: s.GID,
		Namespaces: namespaces, Network: s.Network, Loopback: s.Loopback && !s.Network, Listen: s.Listen, Disk: s.Limits.Disk, Inodes: s.Limits.Inodes,
		Landlock: m.landlock, Seccomp: s.Seccomp, Rlimits: m.rlimits(s.Limits, namespaces), Direct: s.Direct, Terminal: s.Terminal,
	}
	if p.Dir == "" {
		p.Dir = WorkDir
	}
	if err := p.layout(s); err != nil {
		return plan{}, err
	}
	if !namespaces {
		if p.Loopback {
			return plan{}, errors.New("sandbox: a loopback of its own takes namespaces")
		}
		return p, p.checkWithoutMounts()
	}
	return p, nil
}

// layers returns the isolation layers of a process started with s.
func (m machine) layers(s Spec, namespaces bool) Layers {
	var r Layers
	for _, f := range m.report {
		switch {
		case !f.Available, f.Layer == Offline && s.Network:
		case f.Layer == Namespaces && !namespaces:
		default:
			r = append(r, f.Layer)
		}
	}
	return r
}

// launch starts init, sends it the plan, and waits for the end in the background.
// It takes ownership of the group, and removes everything it made if it fails.
func (h *HostMachine) launch(p *Process, s Spec) (err error) {
	var cleanup []func()
	release := func() {
		for _, f := range slices.Backward(cleanup) {
			f()
		}
	}
	defer func() {
		if err != nil {
			if p.group != nil {
				p.group.kill()
				p.group.remove()
			}
			if p.inside != nil {
				p.inside.close()
			}
			release()
		}
	}()
	if !p.plan.Namespaces {
		folder, err := makeWork(&p.plan)
		cleanup = append(cleanup, func() { os.RemoveAll(folder) })
		if err != nil {
			return err
		}
	}
	trees, err := p.plan.openTrees(len(s.Files))
	defer closeAll(trees)
	if err != nil {
		return err
	}
	conn, theirs, err := proc.SocketPair(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	p.control = conn
	p.done = make(chan struct{})
	p.cmd = h.command(p.plan, s)
	p.cmd.ExtraFiles = slices.Concat([]*os.File{theirs}, s.Files, trees)
	if p.plan.Loopback && !p.plan.Direct {
		conn, sockets, err := proc.SocketPair(unix.SOCK_STREAM)
		if err != nil {
			theirs.Close()
			p.control.Close()
			return err
		}
		defer sockets.Close()
		p.inside = &insideSockets{conn: conn, turn: make(chan struct{}, 1)}
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, sockets)
		p.plan.Inside = controlFile + len(p.cmd.ExtraFiles) - 1
	}
	if len(h.Init) > 0 {
		// Opened here because the program's user may not be able to reach the path.
		binary, err := os.Open(h.Init[0])
		if err != nil {
			theirs.Close()
			conn.Close()
			return err
		}
		defer binary.Close()
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, binary)
		p.cmd.Path = fmt.Sprintf("/proc/self/fd/%d", controlFile+len(p.cmd.ExtraFiles)-1)
	}

	started, gone := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		p.runInit(started)
	}()
	err = <-started
	theirs.Close()
	if err != nil {
		conn.Close()
		return err
	}
	answers := json.NewDecoder(conn)
	err = p.handOver(answers)
	if err == nil && p.inside != nil {
		err = p.inside.accept(len(p.plan.Listen))
	}
	if err != nil {
		conn.Close()
		_ = p.cmd.Process.Kill()
		<-gone
		return err
	}
	go p.await(answers, gone, release)
	return nil
}

// command returns the init command, cloned into namespaces, as the program's user.
func (h *HostMachine) command(p plan, s Spec) *exec.Cmd {
	argv := h.Init
	if len(argv) == 0 {
		argv = []string{"/proc/self/exe", InitArg}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	// Init is small and single-threaded; its environment must not contain anything of
	// the server's.
	cmd.Env = []string{"GOMAXPROCS=1", "GOGC=off"}
	cmd.Dir = "/"
	// A nil *os.File in an interface is not nil.
	if s.Stdin != nil {
		cmd.Stdin = s.Stdin
	}
	if s.Stdout != nil {
		cmd.Stdout = s.Stdout
	}
	if s.Stderr != nil {
		cmd.Stderr = s.Stderr
	}
	root := os.Geteuid() == 0
	attr := &syscall.SysProcAttr{Setsid: true}
	if p.Namespaces || p.Direct {
		attr.Pdeathsig = syscall.SIGKILL // without Direct, an init that is not PID 1 must survive to kill the others
	}
	if p.Namespaces || root {
		attr.Credential = &syscall.Credential{Uid: uint32(p.UID), Gid: uint32(p.GID), NoSetGroups: !root}
	}
	if p.Namespaces {
		uid, gid := p.UID, p.GID
		if !root || s.AsServer {
			uid, gid = os.Geteuid(), os.Getegid()
		}
		attr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
		if !p.Network {
			attr.Cloneflags |= unix.CLONE_NEWNET
		}
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: p.UID, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: p.GID, HostID: gid, Size: 1}}
		attr.GidMappingsEnableSetgroups = root
		// For mounting and dropping the bounding set, within the new namespace only.
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
		if p.Loopback {
			attr.AmbientCaps = append(attr.AmbientCaps, unix.CAP_NET_ADMIN)
		}
	}
	cmd.SysProcAttr = attr
	return cmd
}

// openTrees clones the mounts that the sandbox shows while the server's rights
// still apply: init runs as an unprivileged user that may not be able to reach
// them. A server without root rights leaves that to init, which has the same
// rights.
func (p *plan) openTrees(files int) ([]*os.File, error) {
	if !p.Namespaces || os.Geteuid() != 0 {
		return nil, nil
	}
	var open []*os.File
	for i := range p.Trees {
		t := &p.Trees[i]
		fd, err := cloneTree(t.Source, t.attributes())
		if err != nil {
			return open, err
		}
		t.FD = firstFile + files + len(open)
		open = append(open, os.NewFile(uintptr(fd), t.Source))
	}
	return open, nil
}

// makeWork makes the writable folder of a run without mounts, and returns the folder to
// remove after the run. That one stays this user's, so that [Sweep] recognizes it.
func makeWork(p *plan) (folder string, err error) {
	folder = path.Join(os.TempDir(), ownName())
	work := path.Join(folder, "work")
	if err = os.Mkdir(folder, 0o711); err == nil {
		err = os.Mkdir(work, 0o700)
	}
	if err == nil && os.Geteuid() == 0 {
		if err = os.Chmod(folder, 0o711); err == nil { // whatever the umask
			err = os.Chown(work, p.UID, p.GID)
		}
	}
	if err != nil {
		return folder, fmt.Errorf("make the work folder: %w", err)
	}
	p.Work = work
	if p.Dir == WorkDir {
		p.Dir = work
	}
	p.Env = append(slices.Clone(p.Env), "TMPDIR="+work)
	return folder, nil
}
