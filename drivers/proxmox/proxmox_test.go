//go:build linux

package proxmox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/proxmox"
	guestside "github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/internal/sandbox/remote"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
	"github.com/toolroom/toolroom/sandbox/sandboxtest/escape"
	"github.com/toolroom/toolroom/sandbox/sandboxtest/rogue"
)

const secret = "0123456789abcdef0123456789abcdef"

// TestMain runs this binary as the guest, or as the runner inside a container.
func TestMain(m *testing.M) {
	if code, ok := rogue.Main(os.Args[1:], guestside.MainArg); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case guestside.MainArg, guestside.ToolArg:
			os.Exit(guestside.Main(os.Args[1:]))
		case escape.Arg:
			os.Exit(escape.Main(os.Args[2:]))
		case "runner":
			os.Exit(runnerMain(os.Args[2], os.Args[3]))
		}
	}
	os.Exit(m.Run())
}

func runnerMain(listen, secrets string) int {
	keys, err := remote.ReadKeys(secrets)
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGPWR)
	defer stop()
	self, args := "/opt/toolroom", []string{guestside.MainArg}
	err = remote.Serve(ctx, listen, remote.RunnerOptions{
		Driver: process.New(self, args), Guest: self, GuestArgs: args, Keys: keys, Plain: true,
		Grace: time.Minute, // on a slow machine a client opens its stream late
		Log:   slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}, func(net.Addr) {})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (n *node) options() proxmox.Options {
	return proxmox.Options{
		URL: n.server.URL, Node: nodeName, Template: template,
		Token:   func(context.Context) (string, error) { return n.token, nil },
		Runner:  remote.Options{Plain: true, Secret: func(context.Context) (string, error) { return secret, nil }},
		Machine: "cafe", Owner: "1-2", Alive: func(owner string) bool { return owner == "1-2" },
	}
}

func TestTheSuiteInRealContainers(t *testing.T) {
	n := newNode(t)
	d := proxmox.New(n.options())
	sandboxtest.Documented(t, "../../docs/runtimes.md", "proxmox_lxc", d.Probe(t.Context()))
	sandboxtest.Run(t, sandboxtest.Options{
		New:       func(*testing.T) sandbox.Driver { return d },
		Guest:     os.Args[0], // not used: the runner has its own
		Languages: []string{"python", "shell"},
		Leftovers: n.left,
	})
}

func TestNothingGetsOutOfAContainer(t *testing.T) {
	d := proxmox.New(newNode(t).options())
	sandboxtest.Escape(t, sandboxtest.Options{New: func(*testing.T) sandbox.Driver { return d }, Guest: os.Args[0]}, nil)
}

func TestAGuestThatBreaksTheRulesEndsItsOwnRunOnly(t *testing.T) {
	n := newNode(t)
	d := proxmox.New(n.options())
	sandboxtest.Rogue(t, sandboxtest.Options{New: func(*testing.T) sandbox.Driver { return d }, Guest: os.Args[0], Leftovers: n.left})
}

func TestConcurrentRunsHaveTheirOwnContainers(t *testing.T) {
	n := newNode(t)
	d := proxmox.New(n.options())
	var wg sync.WaitGroup
	instances := make([]sandbox.Sandbox, 4)
	for i := range instances {
		wg.Go(func() {
			var err error
			if instances[i], err = d.Start(t.Context(), sandbox.Spec{BestEffort: true}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := n.count(); got != len(instances)+1 {
		t.Errorf("there are %d containers, want one for each run and the template", got)
	}
	for _, b := range instances {
		if b == nil {
			continue
		}
		if !strings.HasPrefix(b.Isolation(), "lxc+remote+ns") {
			t.Errorf("the isolation is %q", b.Isolation())
		}
		for range 2 {
			if err := b.Kill(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	if left := n.left(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func (n *node) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.containers)
}

func TestTheContainerForAllRunsIsStartedAndLeftRunning(t *testing.T) {
	n := newNode(t)
	n.containers[100] = &guest{hostname: "runner"}
	if err := n.create(100, n.containers[100]); err != nil {
		t.Fatal(err)
	}
	o := n.options()
	o.Template, o.Container = 0, 100
	d := proxmox.New(o)
	for range 2 {
		instance, err := d.Start(t.Context(), sandbox.Spec{BestEffort: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := instance.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		if n.status(100) != "running" {
			t.Error("the container for all runs has ended with a run")
		}
	}
}

func TestClonesOfADeadProcessAreDestroyed(t *testing.T) {
	n := newNode(t)
	orphan, others := &guest{hostname: "toolroom-cafe-7-8-0badc0de"}, &guest{hostname: "toolroom-beef-7-8-0badc0de"}
	n.containers[100], n.containers[101] = orphan, others
	n.containers[102] = &guest{hostname: "toolroom-cafe-1-2-0badc0de"} // of a living process
	for id, c := range n.containers {
		if c.template {
			continue
		}
		if err := n.create(id, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.lxc("lxc-start", 100, "-d"); err != nil {
		t.Fatal(err)
	}
	if p := proxmox.New(n.options()).Probe(t.Context()); p.State != sandbox.Available {
		t.Fatalf("%+v", p)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.containers[100] != nil {
		t.Error("the clone of a dead process still exists")
	}
	if n.containers[101] != others || n.containers[102] == nil {
		t.Error("a clone of another machine or process was destroyed")
	}
}

func TestAFailureNamesItsCauseAndLeavesNothing(t *testing.T) {
	n := newNode(t)
	once := func(status int, reason, method, suffix string) func(string, string) (int, string) {
		return func(m, path string) (int, string) {
			if m == method && strings.HasSuffix(path, suffix) {
				return status, reason
			}
			return 0, ""
		}
	}
	for _, tt := range []struct {
		name      string
		options   func(*proxmox.Options)
		fault     func(method, path string) (int, string)
		message   string
		retryable bool
	}{
		{"a token that is not valid", func(o *proxmox.Options) { o.Token = func(context.Context) (string, error) { return "a@pve!b=c", nil } }, nil, "invalid token value", false},
		{"a token that cannot be had", func(o *proxmox.Options) {
			o.Token = func(context.Context) (string, error) { return "", errors.New("it is not set") }
		}, nil, "it is not set", false},
		{"no permission", nil, once(403, "Permission check failed (/vms/9000, VM.Clone)", "POST", "/clone"), "VM.Clone", false},
		{"a node that is down", func(o *proxmox.Options) { o.Node = "pve9" }, nil, "No route to host", true},
		{"no such template", func(o *proxmox.Options) { o.Template = 9999 }, nil, "does not exist", false},
		{"a start that is refused", nil, once(500, "CT is locked (backup)", "POST", "/status/start"), "CT is locked (backup)", false},
		{"no API there", func(o *proxmox.Options) { o.URL = "http://127.0.0.1:1" }, nil, "cannot be reached", true},
		{"a container without a runner", func(o *proxmox.Options) { o.Port = 7072 }, nil, "no runner serves there", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := n.options()
			if tt.options != nil {
				tt.options(&o)
			}
			n.mu.Lock()
			n.fault = tt.fault
			n.mu.Unlock()
			ctx, done := context.WithTimeout(t.Context(), 5*time.Second)
			defer done()
			_, err := proxmox.New(o).Start(ctx, sandbox.Spec{BestEffort: true})
			e := toolroom.AsError(err)
			if e == nil || e.Code != toolroom.CodeSandboxUnavailable || !strings.Contains(e.Message, tt.message) || e.Hints() == "" || e.Retryable != tt.retryable {
				t.Errorf("got %v (%+v), want %q", err, e, tt.message)
			}
			if left := n.left(t); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestAnIDThatAnotherClientTakesFirstIsNoFailure(t *testing.T) {
	n := newNode(t)
	taken := 0
	n.fault = func(method, path string) (int, string) {
		if strings.HasSuffix(path, "/clone") && taken < 2 {
			taken++
			return 500, "unable to create CT 100: CT 100 already exists on node 'pve1'"
		}
		return 0, ""
	}
	instance, err := proxmox.New(n.options()).Start(t.Context(), sandbox.Spec{BestEffort: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := instance.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if left := n.left(t); taken != 2 || len(left) > 0 {
		t.Errorf("%d times taken, left: %v", taken, left)
	}
}

func TestAStartThatIsCancelledWhileItsCloneIsOrderedLeavesNothing(t *testing.T) {
	n := newNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	n.fault = func(method, path string) (int, string) {
		if strings.HasSuffix(path, "/clone") {
			cancel()
		}
		return 0, ""
	}
	if _, err := proxmox.New(n.options()).Start(ctx, sandbox.Spec{BestEffort: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("the start: %v", err)
	}
	n.work.Wait()
	if left := n.left(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
