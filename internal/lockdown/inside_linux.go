//go:build amd64 || arm64

package lockdown

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A socket stays in the network namespace in which it was made. So init makes the sockets
// that the server wants inside, and hands them over on a socket of their own: first those
// of Spec.Listen, then one for each request of two bytes, a port. Before each socket comes
// a byte: 0, or the errno of the failure.

// insideSockets is the server's end of the sockets that init makes inside the sandbox.
type insideSockets struct {
	turn      chan struct{} // has one element while a request waits for its answer
	conn      *net.UnixConn
	listeners []net.Listener
}

// dialTimeout bounds a connection to a program whose queue is full.
const dialTimeout = 5 * time.Second

// Dial connects to a TCP port of the loopback inside. It needs [Spec.Loopback].
func (p *Process) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	if p.inside == nil {
		return nil, errors.New("sandbox: the program has no loopback of its own")
	}
	return p.inside.dial(ctx, port)
}

// dial asks for a connection. It returns when ctx is done, but the turn lasts until the answer
// has come: the next request would take it for its own.
func (i *insideSockets) dial(ctx context.Context, port uint16) (net.Conn, error) {
	select {
	case i.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	type answer struct {
		conn net.Conn
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		conn, err := i.request(port)
		<-i.turn
		if err != nil {
			err = &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)}, Err: err}
		}
		answers <- answer{conn, err}
	}()
	select {
	case a := <-answers:
		return a.conn, a.err
	case <-ctx.Done():
		go func() {
			if a := <-answers; a.conn != nil {
				a.conn.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// request asks init for a connection. If no answer comes in time, there are no further
// requests.
func (i *insideSockets) request(port uint16) (net.Conn, error) {
	_ = i.conn.SetDeadline(time.Now().Add(3 * dialTimeout))
	if _, err := i.conn.Write([]byte{byte(port >> 8), byte(port)}); err != nil {
		return nil, err
	}
	file, err := i.receive()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		i.conn.Close()
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return net.FileConn(file)
}

// Listeners returns the sockets of [Spec.Listen], in its order. They are closed when the
// program has ended.
func (p *Process) Listeners() []net.Listener {
	if p.inside == nil {
		return nil
	}
	return p.inside.listeners
}

// Ports returns the TCP ports on which programs inside listen.
func (p *Process) Ports() []uint16 {
	if p.inside == nil {
		return nil
	}
	var ports []uint16
	for _, name := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", p.PID(), name)) // it may have ended
		for line := range strings.Lines(string(text)) {
			// sl, local address, remote address, state: see proc_pid_net(5).
			fields := strings.Fields(line)
			if len(fields) < 4 || fields[3] != "0A" {
				continue
			}
			port, err := strconv.ParseUint(fields[1][strings.LastIndexByte(fields[1], ':')+1:], 16, 16)
			if err == nil && !slices.Contains(ports, uint16(port)) && !slices.Contains(p.plan.Listen, uint16(port)) {
				ports = append(ports, uint16(port))
			}
		}
	}
	return ports
}

// accept takes the listening sockets over, once init has made them.
func (i *insideSockets) accept(n int) error {
	_ = i.conn.SetDeadline(time.Now().Add(3 * dialTimeout))
	for range n {
		file, err := i.receive()
		if err != nil {
			return fmt.Errorf("listen inside: %w", err)
		}
		l, err := net.FileListener(file)
		file.Close()
		if err != nil {
			return fmt.Errorf("listen inside: %w", err)
		}
		i.listeners = append(i.listeners, l)
	}
	return nil
}

func (i *insideSockets) close() {
	i.conn.Close()
	for _, l := range i.listeners {
		l.Close()
	}
}

func (i *insideSockets) receive() (*os.File, error) {
	text, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := i.conn.ReadMsgUnix(text, oob)
	switch {
	case err != nil:
		return nil, err
	case n != 1:
		return nil, errors.New("the sandbox has ended")
	case text[0] != 0:
		return nil, unix.Errno(text[0])
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("init sent no socket: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("init sent no socket: %w", err)
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "inside"), nil
}

// listenInside makes the sockets of the plan, before the program starts.
func (p *plan) listenInside() error {
	for _, port := range p.Listen {
		fd, err := listenOn(port)
		if err := p.sendSocket(fd, err); err != nil {
			return err
		}
	}
	return nil
}

func listenOn(port uint16) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(port)}); err == nil {
		err = unix.Listen(fd, 128)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}

// sendSocket sends a socket to the server, and closes it here.
func (p *plan) sendSocket(fd int, err error) error {
	if err != nil {
		var errno unix.Errno
		if !errors.As(err, &errno) || errno == 0 || errno > 255 {
			errno = unix.EIO
		}
		return unix.Sendmsg(p.Inside, []byte{byte(errno)}, nil, nil, 0)
	}
	defer unix.Close(fd)
	return unix.Sendmsg(p.Inside, []byte{0}, unix.UnixRights(fd), nil, 0)
}

// dialInside connects for the server until it is gone.
func (p *plan) dialInside() {
	port := make([]byte, 2)
	for {
		n, err := unix.Read(p.Inside, port)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n != len(port) {
			return
		}
		if p.sendSocket(dialTo(uint16(port[0])<<8|uint16(port[1]))) != nil {
			return
		}
	}
}

func dialTo(port uint16) (fd int, err error) {
	loopback6 := [16]byte{15: 1}
	for _, to := range []struct {
		family  int
		address unix.Sockaddr
	}{
		{unix.AF_INET, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(port)}},
		{unix.AF_INET6, &unix.SockaddrInet6{Addr: loopback6, Port: int(port)}},
	} {
		var failed error
		if fd, failed = unix.Socket(to.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); failed == nil {
			timeout := unix.NsecToTimeval(dialTimeout.Nanoseconds())
			_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout) // the server waits no longer
			if failed = connect(fd, to.address); failed == nil {
				return fd, unix.SetNonblock(fd, true)
			}
			unix.Close(fd)
		}
		if err == nil || errors.Is(err, unix.ECONNREFUSED) && !errors.Is(failed, unix.EAFNOSUPPORT) && !errors.Is(failed, unix.EADDRNOTAVAIL) {
			err = failed
		}
	}
	return -1, err
}

// connect connects a socket. A signal, which the runtime of Go sends to its threads, ends the
// wait of a socket with a timeout, but not the connecting: see connect(2).
func connect(fd int, to unix.Sockaddr) error {
	for {
		switch err := unix.Connect(fd, to); {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EISCONN):
			return nil
		default:
			return err
		}
	}
}
