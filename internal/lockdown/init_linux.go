//go:build amd64 || arm64

package lockdown

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Main runs the init of a sandbox and returns its exit code. A program whose first
// argument is [InitArg] must call it before anything else.
func Main() int {
	if _, err := unix.FcntlInt(controlFile, unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
		fmt.Fprintln(os.Stderr, InitArg+" is used by toolroom to start sandboxes; it is not a command")
		return 2
	}
	control := os.NewFile(controlFile, "control")
	i := &initProcess{answers: json.NewEncoder(control), orders: json.NewDecoder(control)}
	if err := i.orders.Decode(&i.plan); err != nil {
		return 2 // the server is gone, or the other end is not a server
	}
	if err := i.start(); err != nil {
		i.answers.Encode(message{Error: err.Error()})
		return 1
	}
	exit := i.reap()
	var usage unix.Rusage
	unix.Getrusage(unix.RUSAGE_CHILDREN, &usage)
	i.killRemaining()
	i.answers.Encode(message{Exit: &exit, Usage: Usage{
		CPU:    time.Duration(usage.Utime.Nano() + usage.Stime.Nano()),
		Memory: usage.Maxrss << 10,
	}})
	return 0
}

type initProcess struct {
	plan    plan
	orders  *json.Decoder
	answers *json.Encoder
	child   int
}

func (i *initProcess) start() error {
	p := &i.plan
	// Close on exec all files that the server left open, and keep other processes from
	// reading this process's memory.
	if err := unix.CloseRange(uint(firstFile+p.Files), ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close files: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protect init: %w", err)
	}
	// An operator may signal all processes of a server; the server is to handle that,
	// not init. A signal with a handler is reset when a program is executed, but an
	// ignored signal would stay ignored.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)

	syscall.Umask(0)
	p.threads = threads()
	if p.Namespaces {
		if p.Loopback {
			if err := LoopbackUp(); err != nil {
				return fmt.Errorf("bring up the loopback: %w", err)
			}
			if err := p.listenInside(); err != nil {
				return fmt.Errorf("listen inside: %w", err)
			}
		}
		if err := p.buildRoot(); err != nil {
			return err
		}
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	s, err := p.script()
	if err != nil {
		return err
	}
	if p.Direct && !p.Probe {
		return s.exec()
	}
	if i.child, err = s.fork(); err != nil {
		return err
	}
	if err := p.closeProgramFiles(); err != nil {
		return err
	}
	if err := i.answers.Encode(message{Started: true, NoProc: p.noProc}); err != nil {
		return err
	}
	go i.handleOrders()
	if p.Inside > 0 {
		go p.dialInside()
	}
	dropOwnCapabilities() // last, because it waits for each thread: the program already runs
	return nil
}

// closeProgramFiles closes init's copies of the program's files, so that the reader of the
// program's output sees when the program closes it.
func (p *plan) closeProgramFiles() error {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	defer unix.Close(null)
	for fd := range controlFile {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return fmt.Errorf("close files: %w", err)
		}
	}
	for i := range p.Files {
		unix.Close(firstFile + i)
	}
	return nil
}

// dropOwnCapabilities drops init's capabilities. A build with cgo cannot do that
// for all threads and keeps them; nothing inside can reach them.
func dropOwnCapabilities() {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	s := &script{}
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_CAPSET, pointer(s, &header), pointer(s, &none[0]), 0)
}

// handleOrders forwards signals, and kills everything if the server is gone or asks for
// it.
func (i *initProcess) handleOrders() {
	for {
		var o order
		if err := i.orders.Decode(&o); err != nil {
			unix.Kill(i.child, unix.SIGKILL)
			i.killRemaining()
			os.Exit(1)
		}
		unix.Kill(i.child, syscall.Signal(o.Signal))
	}
}

// reap waits for the program, and reaps orphans that were reparented to init.
func (i *initProcess) reap() Exit {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return Exit{Code: -1}
		case pid != i.child:
		case status.Signaled():
			return Exit{Code: -1, Signal: int(status.Signal())}
		default:
			return Exit{Code: status.ExitStatus()}
		}
	}
}

// killRemaining kills all remaining processes. If init is PID 1, the kernel does so. If not,
// every orphan is a child of init already, or becomes one when its parent is
// killed.
func (i *initProcess) killRemaining() {
	if i.plan.Namespaces {
		return
	}
	for {
		children := childrenOfInit()
		if len(children) == 0 {
			return
		}
		for _, pid := range children {
			unix.Kill(pid, unix.SIGKILL)
		}
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

func childrenOfInit() []int {
	var pids []int
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		list, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		for _, field := range strings.Fields(string(bytes.TrimSpace(list))) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
