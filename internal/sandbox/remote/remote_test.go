//go:build linux

package remote_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/internal/sandbox/remote"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
	"github.com/toolroom/toolroom/sandbox/sandboxtest/escape"
	"github.com/toolroom/toolroom/sandbox/sandboxtest/rogue"
)

// TestMain runs this binary as the guest, or as the runner.
func TestMain(m *testing.M) {
	if code, ok := rogue.Main(os.Args[1:], guest.MainArg); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case guest.MainArg, guest.ToolArg:
			os.Exit(guest.Main(os.Args[1:]))
		case escape.Arg:
			os.Exit(escape.Main(os.Args[2:]))
		case "runner":
			os.Exit(runnerMain(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// runnerMain serves this machine's process driver. Its arguments are LISTEN SECRETS CERT
// KEY CA.
func runnerMain(args []string) int {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	keys, err := remote.ReadKeys(args[1])
	if err != nil {
		panic(err)
	}
	config, err := remote.TLS(args[2], args[3], args[4])
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	o := remote.RunnerOptions{
		Driver: process.New(self, []string{guest.MainArg}), Guest: self, GuestArgs: []string{guest.MainArg}, Keys: keys, TLS: config,
		Silence: 4 * time.Second, Grace: time.Second, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if err := remote.Serve(ctx, args[0], o, func(at net.Addr) { fmt.Println("ready", at) }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const secret = "0123456789abcdef0123456789abcdef"

func secretOf(context.Context) (string, error) { return secret, nil }

// network is a network namespace that is connected to this one.
type network struct{ name, here, there string }

func newNetwork(t testing.TB) network {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("a network namespace needs root")
		}
		t.Skip("a network namespace needs root")
	}
	id := os.Getpid() % 200
	n := network{fmt.Sprintf("tr%d", os.Getpid()), fmt.Sprintf("10.213.%d.1", id), fmt.Sprintf("10.213.%d.2", id)}
	link := n.link()
	for _, line := range []string{
		"netns add " + n.name,
		"link add " + link + " type veth peer name inside netns " + n.name,
		"addr add " + n.here + "/30 dev " + link,
		"link set " + link + " up",
		"-n " + n.name + " addr add " + n.there + "/30 dev inside",
		"-n " + n.name + " link set inside up",
		"-n " + n.name + " link set lo up",
	} {
		ip(t, line)
	}
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "del", link).Run()
		_ = exec.Command("ip", "netns", "del", n.name).Run()
	})
	return n
}

func (n network) link() string { return n.name + "c" }

func ip(t testing.TB, line string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", line, err, out)
	}
}

// machine is a runner in another network.
type machine struct {
	network
	process *os.Process
	options remote.Options // of the runner's client
}

// newMachine starts a runner in another network namespace, with certificates on both
// sides.
func newMachine(t testing.TB) *machine {
	t.Helper()
	m := &machine{network: newNetwork(t)}
	folder := t.TempDir()
	authority := newAuthority(t, folder)
	cert, key := authority.issue(t, "runner", m.there)
	clientCert, clientKey := authority.issue(t, "client", "")
	secrets := filepath.Join(folder, "secrets")
	if err := os.WriteFile(secrets, []byte("# clients\nann "+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// ip netns exec would hide the cgroups. nsenter is replaced by the runner.
	cmd := exec.Command("nsenter", "--net=/run/netns/"+m.name, self, "runner", m.there+":0", secrets, cert, key, authority.path)
	cmd.Stderr = testWriter{t}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.process = cmd.Process
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the runner did not start: %v", err)
	}
	m.options = remote.Options{
		URL: "https://" + strings.TrimSpace(strings.TrimPrefix(line, "ready ")), Secret: secretOf,
		CA: authority.path, Cert: clientCert, Key: clientKey, Silence: 4 * time.Second,
	}
	return m
}

// testWriter writes the runner's log to the test's log.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// leftovers returns the processes and cgroups of the runner's sandboxes.
func (m *machine) leftovers(t *testing.T) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		_, after, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(after); err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(m.process.Pid) {
			left = append(left, string(stat))
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*/", "/sys/fs/cgroup/*/*/"} {
		groups, err := filepath.Glob(pattern + fmt.Sprintf("toolroom-sandbox-%d-*", m.process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, groups...)
	}
	return left
}

func TestTheSuiteInAnotherNetwork(t *testing.T) {
	m := newMachine(t)
	sandboxtest.Documented(t, "../../../docs/runtimes.md", "remote", remote.New(m.options).Probe(t.Context()))
	sandboxtest.Run(t, sandboxtest.Options{
		New:       func(*testing.T) sandbox.Driver { return remote.New(m.options) },
		Guest:     os.Args[0], // not used: the runner has its own
		Languages: []string{"python", "shell"},
		Leftovers: m.leftovers,
	})
}

func TestNothingGetsOutOnTheOtherSide(t *testing.T) {
	m := newMachine(t)
	sandboxtest.Escape(t, sandboxtest.Options{
		New: func(*testing.T) sandbox.Driver { return remote.New(m.options) }, Guest: os.Args[0],
	}, nil)
}

func TestAGuestThatBreaksTheRulesEndsItsOwnRunOnly(t *testing.T) {
	m := newMachine(t)
	sandboxtest.Rogue(t, sandboxtest.Options{
		New: func(*testing.T) sandbox.Driver { return remote.New(m.options) }, Guest: os.Args[0], Leftovers: m.leftovers,
	})
}

// eventually waits until no sandbox of the runner is left.
func (m *machine) eventually(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left := m.leftovers(t)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the runner has left:\n%s", strings.Join(left, "\n"))
		}
	}
}

func TestALostConnectionEndsTheSandboxOnTheOtherSide(t *testing.T) {
	m := newMachine(t)
	instance, err := remote.New(m.options).Start(t.Context(), sandbox.Spec{BestEffort: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.leftovers(t)) == 0 {
		t.Fatal("there is no sandbox that could be ended")
	}
	ip(t, "link set "+m.link()+" down")
	m.eventually(t)
	if _, err := instance.Stream().Read(make([]byte, 1<<20)); err == nil {
		_, err = instance.Stream().Read(make([]byte, 1<<20)) // the first read returned the hello
		if err == nil {
			t.Error("the stream does not end without a network")
		}
	}
}

// If a runner is killed, the kernel ends most of what it has started. The next runner of
// the machine sweeps the rest when it starts.
func TestTheLeftoversOfAKilledRunnerAreSwept(t *testing.T) {
	m := newMachine(t)
	d := remote.New(m.options)
	instance, err := d.Start(t.Context(), sandbox.Spec{BestEffort: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.process.Wait(); err != nil {
		t.Fatal(err)
	}
	lockdown.Sweep()
	m.eventually(t)
	ctx, done := context.WithTimeout(t.Context(), 2*time.Second)
	defer done()
	if _, err := instance.Wait(ctx); err == nil {
		t.Error("a dead runner reported the end of a sandbox")
	}
	if p := d.Probe(ctx); p.State != sandbox.Inconclusive || p.Fix == "" {
		t.Errorf("the probe of a dead runner is %+v", p)
	}
}

// BenchmarkStart measures a guest in another network from its order to its hello, and its
// removal.
func BenchmarkStart(b *testing.B) {
	m := newMachine(b)
	d := remote.New(m.options)
	for b.Loop() {
		instance, err := d.Start(b.Context(), sandbox.Spec{BestEffort: true})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(instance.Stream(), make([]byte, 4)); err != nil {
			b.Fatal(err)
		}
		if err := instance.Kill(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
