//go:build amd64 || arm64

package netjail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/proc"
)

// attackArg makes this binary run the attacks.
const attackArg = "__attack"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == lockdown.JailArg:
		os.Exit(lockdown.JailMain(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == attackArg:
		_ = json.NewEncoder(os.Stdout).Encode(attack(os.Args[2], os.Args[3]))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// attack tries every way out and returns the results: "out" means success. local is the
// address of a service of the machine, and socket the path of its Unix socket.
func attack(local, socket string) map[string]string {
	tried := map[string]string{}
	try := func(name string, do func() error) {
		tried[name] = "out"
		if err := do(); err != nil {
			tried[name] = err.Error()
		}
	}
	dial := func(network, address string) func() error {
		return func() error {
			conn, err := net.DialTimeout(network, address, 2*time.Second)
			if err == nil {
				conn.Close()
			}
			return err
		}
	}
	send := func(network, address string) func() error {
		return func() error {
			conn, err := net.Dial(network, address)
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write([]byte("secret"))
			return err
		}
	}
	direct := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{}}
	get := func(client *http.Client, address string) func() error {
		return func() error {
			answer, err := client.Get(address)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			text, _ := io.ReadAll(answer.Body)
			if answer.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: %s", answer.Status, text)
			}
			return nil
		}
	}
	try("host loopback", dial("tcp", local))
	try("host loopback over IPv6", dial("tcp", "[::1]:"+local[strings.LastIndex(local, ":")+1:]))
	try("metadata", get(direct, "http://169.254.169.254/latest/meta-data/"))
	try("direct IP", dial("tcp", "192.0.2.1:443"))
	try("direct IPv6", dial("tcp", "[2001:db8::1]:443"))
	try("UDP to a name server", send("udp", "192.0.2.53:53"))
	try("name lookup", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, err := net.DefaultResolver.LookupHost(ctx, "data.attacker.example")
		return err
	})
	try("unix socket", dial("unix", socket))
	try("abstract unix socket", dial("unix", "@"+socket))
	// The kernel makes a datagram socket of a raw one.
	for name, kind := range map[string]int{"datagram pair turned to a name": unix.SOCK_DGRAM, "raw pair turned to a name": unix.SOCK_RAW} {
		try(name, func() error {
			fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
			if err != nil {
				return err
			}
			return unix.Sendto(fds[0], []byte("x"), 0, &unix.SockaddrUnix{Name: socket + ".dgram"})
		})
	}
	try("vsock", func() error { _, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0); return err })
	try("packet", func() error { _, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0); return err })
	try("raw", func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP); return err })
	try("io_uring", func() error {
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
		if errno == unix.ENOSYS {
			return errno
		}
		return nil
	})
	try("the server's namespace", func() error {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", os.Getppid()), unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.Setns(fd, unix.CLONE_NEWNET)
	})
	try("the server's files and sockets", func() error {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", os.Getppid()))
		for _, link := range links { // the names of the links may be visible
			if _, err := os.Readlink(link); err == nil {
				return nil
			}
		}
		return errors.New("none can be followed")
	})
	try("the server's environment", func() error {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid()))
		return err
	})
	try("the server's memory", func() error {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", os.Getppid()), os.O_RDWR, 0)
		if err == nil {
			f.Close()
		}
		return err
	})
	if proxy := os.Getenv("HTTPS_PROXY"); proxy != "" {
		u, _ := url.Parse(proxy)
		through := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{Proxy: http.ProxyURL(u)}}
		try("proxy: host loopback", get(through, "http://"+local+"/"))
		try("proxy: metadata", get(through, "http://169.254.169.254/latest/meta-data/"))
		try("proxy: metadata in decimal", get(through, "http://2852039166/"))
		try("proxy: metadata by CONNECT", get(through, "https://169.254.169.254/"))
		try("proxy: itself", get(through, proxy))
		try("proxy: smuggled host", func() error {
			conn, err := net.Dial("tcp", u.Host)
			if err != nil {
				return err
			}
			defer conn.Close()
			// The target of CONNECT must be checked, whatever Host says.
			fmt.Fprintf(conn, "CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: allowed.example:443\r\n\r\n")
			text, _ := io.ReadAll(io.LimitReader(conn, 12))
			if strings.HasSuffix(string(text), "200") {
				return nil
			}
			return errors.New(string(text))
		})
	}
	return tried
}

// runAttack runs the attacks in a jail and returns their results.
func runAttack(t *testing.T, f *Jail, local, socket string, env ...string) map[string]string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f.Launcher = []string{self}
	p, err := f.Start(proc.Spec{Command: self, Args: []string{attackArg, local, socket}, Env: env, Owner: "test", Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(0)
	var tried map[string]string
	if err := json.NewDecoder(p.Stdout).Decode(&tried); err != nil {
		t.Fatal(err)
	}
	return tried
}

// services starts services of the machine that a program must not reach.
func services(t *testing.T) (local, socket string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }))
	t.Cleanup(server.Close)
	dir, err := os.MkdirTemp("", "netjail") // the path of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	for _, name := range []string{socket, "@" + socket} { // no other process has these names
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	datagrams, err := net.ListenPacket("unixgram", socket+".dgram")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { datagrams.Close() })
	return strings.TrimPrefix(server.URL, "http://"), socket
}

func guard(t *testing.T, p egress.Policy) *egress.Guard {
	t.Helper()
	g, err := egress.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAProgramWithoutNetworkCannotGetOut(t *testing.T) {
	local, socket := services(t)
	tried := runAttack(t, &Jail{}, local, socket, "HTTPS_PROXY=http://192.0.2.9:3128")
	for name, outcome := range tried {
		if outcome == "out" {
			t.Errorf("%s: got out", name)
		}
		if strings.HasPrefix(name, "proxy") {
			t.Errorf("the program was given a proxy")
		}
	}
	if len(tried) < 15 {
		t.Errorf("only %d attacks were tried: %v", len(tried), tried)
	}
}

func TestAGuardedProgramGetsOutThroughTheProxyOnly(t *testing.T) {
	local, socket := services(t)
	tried := runAttack(t, &Jail{Guard: guard(t, egress.Policy{})}, local, socket)
	for name, outcome := range tried {
		if outcome == "out" {
			t.Errorf("%s: got out", name)
		}
	}
	for _, name := range []string{"proxy: host loopback", "proxy: metadata", "proxy: metadata in decimal"} {
		if !strings.Contains(tried[name], "403") {
			t.Errorf("%s: %q, want a refusal that says so", name, tried[name])
		}
	}
}

func TestTheProxyReachesAllowedHosts(t *testing.T) {
	local, socket := services(t)
	tried := runAttack(t, &Jail{Guard: guard(t, egress.Policy{Closed: true, Allow: []string{local}})}, local, socket)
	for name, outcome := range tried {
		if allowed := name == "proxy: host loopback"; allowed != (outcome == "out") {
			t.Errorf("%s: %s", name, outcome)
		}
	}
}

func TestAJailedProgramKeepsItsFilesItsUserAndItsExitCode(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "mine")
	f := &Jail{Launcher: []string{self}}
	p, err := f.Start(proc.Spec{Command: "sh", Args: []string{"-c", `id -u; echo kept > "$0"; exit 7`, file}, Env: os.Environ(), Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	output, _ := io.ReadAll(p.Stdout)
	<-p.Done()
	p.Stop(0)
	if got := strings.TrimSpace(string(output)); got != fmt.Sprint(os.Geteuid()) {
		t.Errorf("the program is user %s, not %d", got, os.Geteuid())
	}
	if text, _ := os.ReadFile(file); string(text) != "kept\n" {
		t.Errorf("the file contains %q", text)
	}
	if exit := (*exec.ExitError)(nil); !errors.As(p.Err(), &exit) || exit.ExitCode() != 7 {
		t.Errorf("the program ended with %v, not with exit code 7", p.Err())
	}
}

func TestAFailedStartSaysWhy(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		jail    Jail
		command string
		want    func(error) bool
	}{
		{"no program on PATH", Jail{Launcher: []string{self}}, "no-such-program-here", func(err error) bool { return errors.Is(err, exec.ErrNotFound) }},
		{"no program at a path", Jail{Launcher: []string{self}}, "/no/such/program", func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		{"no helper", Jail{}, "true", func(err error) bool { return toolroom.CodeOf(err) == toolroom.CodeSandboxUnavailable }},
	} {
		p, err := c.jail.Start(proc.Spec{Command: c.command, Owner: "test"})
		if err == nil {
			p.Stop(0)
		}
		if err == nil || !c.want(err) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
