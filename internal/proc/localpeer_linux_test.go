package proc

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Other users of this machine: one that could be anybody, and one whose number stands for
// users without a number.
const (
	stranger = 5678
	nobody   = 65534
)

// actVariable has what a test process under another user does, and an address.
const actVariable = "TOOLROOM_TEST_ACT"

// TestAct is a process of another user.
func TestAct(t *testing.T) {
	act, at, _ := strings.Cut(os.Getenv(actVariable), " ")
	if act == "" {
		return
	}
	if act == "serve" { // accepts one connection and tells what it finds
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(l.Addr())
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(os.Getuid(), CheckLocalPeer(c))
		os.Exit(0)
	}
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "hello")
	switch act {
	case "close":
		c.Close()
	case "half":
		_ = c.(*net.TCPConn).CloseWrite()
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test is over
	os.Exit(0)
}

// needRoot ends a test that must act as other users.
func needRoot(t *testing.T) {
	t.Helper()
	switch {
	case os.Getuid() == 0:
	case os.Getenv("CI") == "true":
		t.Fatal("this test needs root, to be another user")
	default:
		t.Skip("needs root")
	}
}

// as runs TestAct in a process with these attributes until the test ends, or the caller
// has read its output. The test's program may be in a folder that other users cannot open.
func as(t *testing.T, attr *syscall.SysProcAttr, act string) (out *bufio.Reader) {
	t.Helper()
	needRoot(t)
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	c := exec.Command("/proc/self/fd/3", "-test.run=^TestAct$")
	c.ExtraFiles, c.SysProcAttr, c.Stderr, c.Dir = []*os.File{exe}, attr, os.Stderr, "/"
	c.Env = []string{actVariable + "=" + act, "TMPDIR=/tmp"}
	in, err1 := c.StdinPipe()
	stdout, err2 := c.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = c.Wait() })
	return bufio.NewReader(stdout)
}

func user(uid uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}

// tables are the ways in which this system may tell.
func tables(t *testing.T) map[string]socketTable {
	t.Helper()
	d, err := openDiag()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return map[string]socketTable{"sock_diag": d, "proc": procTable{"/proc/net"}}
}

// accepted returns a connection that act makes from a process of another user, or from this
// one if attr is nil, once what it sent has come, and its end too if end is set.
func accepted(t *testing.T, network, listen, dial string, attr *syscall.SysProcAttr, act string, end bool) net.Conn {
	t.Helper()
	l, err := net.Listen(network, listen)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	at := net.JoinHostPort(dial, port)
	if attr == nil {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, "hello")
	} else {
		as(t, attr, act+" "+at)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	want := int64(len("hello"))
	if end {
		want++ // reads to the end
	}
	if _, err := io.CopyN(io.Discard, c, want); err != nil && (!end || err != io.EOF) {
		t.Fatal(err)
	}
	return c
}

func TestWhoseEndOfALoopbackConnection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, network, listen, dial, act string
		attr                             *syscall.SysProcAttr
		end                              bool
		want                             string
	}{
		{"own", "tcp4", "127.0.0.1:0", "127.0.0.1", "", nil, false, ""},
		{"own over IPv6", "tcp6", "[::1]:0", "::1", "", nil, false, ""},
		{"own over IPv4 to both", "tcp", "[::]:0", "127.0.0.1", "", nil, false, ""},
		{"own, mapped", "tcp", "[::]:0", "::ffff:127.0.0.1", "", nil, false, ""},
		{"stranger", "tcp4", "127.0.0.1:0", "127.0.0.1", "stay", user(stranger), false, "another user of this machine (uid 5678)"},
		{"stranger over IPv6", "tcp6", "[::1]:0", "::1", "stay", user(stranger), false, "uid 5678"},
		{"stranger over IPv4 to both", "tcp", "[::]:0", "127.0.0.1", "stay", user(stranger), false, "uid 5678"},
		{"stranger, mapped", "tcp", "[::]:0", "::ffff:127.0.0.1", "stay", user(stranger), false, "uid 5678"},
		{"stranger that sends no more", "tcp4", "127.0.0.1:0", "127.0.0.1", "half", user(stranger), true, "uid 5678"},
		{"nobody", "tcp4", "127.0.0.1:0", "127.0.0.1", "stay", user(nobody), false, "uid 65534"},
		// The kernel says of a socket that nobody has open that it is root's.
		{"stranger that has gone", "tcp4", "127.0.0.1:0", "127.0.0.1", "close", user(stranger), true, errNoPeer.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn := accepted(t, c.network, c.listen, c.dial, c.attr, c.act, c.end)
			local, remote, ok := loopbackEnds(conn)
			if !ok {
				t.Fatalf("%s is no loopback connection", conn.RemoteAddr())
			}
			inode, err := inodeOf(conn)
			if err != nil {
				t.Fatal(err)
			}
			check := func(name string, err error) {
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("%s: %v, not %q", name, err, c.want)
				}
			}
			check("CheckLocalPeer", CheckLocalPeer(conn))
			for name, table := range tables(t) {
				check(name, checkPeerUser(peerUser(table, inode, local, remote)))
			}
		})
	}
}

// A client that resets its connection after its request leaves the port to others.
func TestTheNextConnectionFromAPortIsNotThatOfTheOneBefore(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := func(from net.Addr) (client, accepted *net.TCPConn) {
		c, err := (&net.Dialer{LocalAddr: from}).Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		a, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(); a.Close() })
		return c.(*net.TCPConn), a.(*net.TCPConn)
	}
	first, before := dial(nil)
	if err := first.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	first.Close()
	if _, err := before.Read(make([]byte, 1)); err == nil {
		t.Fatal("the connection was not reset")
	}
	_, after := dial(first.LocalAddr())
	if err := CheckLocalPeer(before); err == nil {
		t.Error("a connection that was reset has the user of the next one from its port")
	}
	if err := CheckLocalPeer(after); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// A user whose number is that of users without a number cannot know its own processes.
func TestAUserOutsideOfTheUserNamespaceIsNotOurs(t *testing.T) {
	t.Parallel()
	inside := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 1234, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 1234, Size: 1}},
		Credential:  &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true},
	}
	out := as(t, inside, "serve")
	at, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	as(t, user(stranger), "stay "+strings.TrimSpace(at))
	found, err := out.ReadString('\n')
	if err != nil || !strings.HasPrefix(found, "65534 ") || !strings.Contains(found, "no uid in this user namespace") {
		t.Errorf("the server found %q, %v", found, err)
	}
}

func TestAConnectionThatIsNotOfTheLoopbackHasNoLocalPeer(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if err := CheckLocalPeer(a); err == nil {
		t.Error("a pipe has a local peer")
	}
}

// fakeTable answers each look with the next of its sockets.
type fakeTable struct {
	peers []tcpSocket
	own   tcpSocket
}

var fakeLocal, fakeRemote = netip.MustParseAddrPort("127.0.0.1:7070"), netip.MustParseAddrPort("127.0.0.1:40000")

func (f *fakeTable) find(local, _ netip.AddrPort) (tcpSocket, error) {
	if local == fakeLocal {
		return f.own, nil
	}
	if len(f.peers) == 0 {
		return tcpSocket{}, errNoSocket
	}
	first := f.peers[0]
	f.peers = f.peers[1:]
	return first, nil
}

func TestWhatIsNotSurelyTheOtherEndIsNobodys(t *testing.T) {
	t.Parallel()
	alive := tcpSocket{state: tcpEstablished, uid: 0, inode: 7}
	for name, f := range map[string]fakeTable{
		"a listener on the client's port":             {[]tcpSocket{{10, 0, 7}, {10, 0, 7}}, alive},
		"somebody who tries to connect from it":       {[]tcpSocket{{2, 0, 7}, {2, 0, 7}}, alive},
		"a connection that is over":                   {[]tcpSocket{{6, 0, 0}, {6, 0, 0}}, alive},
		"an end that nobody has open":                 {[]tcpSocket{{tcpFinWait2, 0, 0}, {tcpFinWait2, 0, 0}}, alive},
		"another one at the second look":              {[]tcpSocket{alive, {tcpEstablished, 0, 8}}, alive},
		"gone at the second look":                     {[]tcpSocket{alive}, alive},
		"closed while it was read":                    {[]tcpSocket{alive, {tcpFinWait2, 0, 0}}, alive},
		"our own end is over: the port may be reused": {[]tcpSocket{alive, alive}, tcpSocket{state: 7}},
		"our own end is another connection's":         {[]tcpSocket{alive, alive}, tcpSocket{state: tcpEstablished, inode: 8}},
		"not there":                                   {nil, alive},
	} {
		if uid, err := peerUser(&f, 7, fakeLocal, fakeRemote); err != errNoPeer {
			t.Errorf("%s: %d, %v", name, uid, err)
		}
	}
	if uid, err := peerUser(&fakeTable{[]tcpSocket{alive, alive}, alive}, 7, fakeLocal, fakeRemote); err != nil || uid != 0 {
		t.Errorf("a living end: %d, %v", uid, err)
	}
}

func TestAListenerForOursDropsOthers(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := OnlyThisUser(inner)
	defer l.Close()
	as(t, user(stranger), "stay "+l.Addr().String())
	own, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.RemoteAddr().String() != own.LocalAddr().String() {
		t.Errorf("it let %s in", c.RemoteAddr())
	}
}
