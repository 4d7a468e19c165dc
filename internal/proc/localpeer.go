package proc

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
)

// CheckLocalPeer returns nil if the other end of c, a TCP connection on the loopback
// interface, belongs to the user of this process or to root. Anybody on a machine can
// connect there, so the address alone does not tell who calls.
//
// The error wraps [ErrUnknownPeer] on systems that do not tell. If such a system as Linux
// tells nothing of one connection, the error is another one: then something stands between,
// or the client has gone.
func CheckLocalPeer(c net.Conn) error {
	local, remote, ok := loopbackEnds(c)
	if !ok {
		return errors.New("the connection does not come from the loopback interface")
	}
	return checkLocalPeer(c, local, remote)
}

// loopbackEnds returns the addresses of a TCP connection on the loopback interface. IPv4
// addresses inside IPv6 become IPv4 addresses.
func loopbackEnds(c net.Conn) (local, remote netip.AddrPort, ok bool) {
	ends := [2]netip.AddrPort{}
	for i, at := range []net.Addr{c.LocalAddr(), c.RemoteAddr()} {
		tcp, isTCP := at.(*net.TCPAddr)
		if !isTCP {
			return local, remote, false
		}
		end := tcp.AddrPort()
		ends[i] = netip.AddrPortFrom(end.Addr().Unmap().WithZone(""), end.Port())
	}
	return ends[0], ends[1], ends[1].Addr().IsLoopback()
}

// checkUser returns an error unless uid is root or the user of this process.
func checkUser(uid int) error {
	if own := os.Getuid(); uid != own && uid != 0 {
		return fmt.Errorf("the connection comes from another user of this machine (uid %d), and this program runs as uid %d", uid, own)
	}
	return nil
}

// errNoPeer means that a connection has no other end on this machine that an open file of a
// process holds.
var errNoPeer = errors.New("this machine does not tell whose connection it is: the client has closed it, or something forwards it, such as a container engine")

// OnlyThisUser returns a listener that drops the connections of other users of this machine, as
// far as the system tells. l must listen on the loopback interface.
func OnlyThisUser(l net.Listener) net.Listener { return ownListener{l} }

type ownListener struct{ net.Listener }

func (l ownListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if err := CheckLocalPeer(c); err == nil || errors.Is(err, ErrUnknownPeer) {
			return c, nil
		}
		c.Close()
	}
}

// ErrUnknownPeer means that this system does not tell.
var ErrUnknownPeer = errors.New("this system does not tell who is at the other end of a socket")

// CheckPeer returns an error unless the process at the other end of c belongs to this user and
// has the id pid. On systems that do not tell, it returns nil: there the folder of the
// socket must keep others away.
func CheckPeer(c net.Conn, pid int) error {
	user, process, err := Peer(c)
	switch {
	case errors.Is(err, ErrUnknownPeer):
		return nil
	case err != nil:
		return fmt.Errorf("ask who is at the other end of the socket: %w", err)
	case user != os.Getuid():
		return fmt.Errorf("process %d at the other end of the socket belongs to user %d, not to %d", process, user, os.Getuid())
	case process != pid:
		return fmt.Errorf("process %d is at the other end of the socket, not process %d", process, pid)
	}
	return nil
}
