package proc

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// tcpSocket is the kernel's information about a TCP socket.
type tcpSocket struct {
	state uint8
	uid   uint32
	inode uint32 // 0 if no process has it open; the uid is then that of root
}

// errNoSocket means that there is no socket with these addresses.
var errNoSocket = errors.New("there is no such socket")

// socketTable finds the socket with a local and a remote address.
type socketTable interface {
	find(local, remote netip.AddrPort) (tcpSocket, error)
}

func checkLocalPeer(c net.Conn, local, remote netip.AddrPort) error {
	inode, err := inodeOf(c)
	if err != nil {
		return err
	}
	diag, err := openDiag()
	if err == nil {
		defer diag.close()
		uid, err := peerUser(diag, inode, local, remote)
		if !errors.Is(err, errNoTable) {
			return checkPeerUser(uid, err)
		}
	}
	return checkPeerUser(peerUser(procTable{"/proc/net"}, inode, local, remote))
}

// inodeOf returns the inode of a connection's socket.
func inodeOf(c net.Conn) (uint64, error) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0, fmt.Errorf("a connection of type %T has no socket", c)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, err
	}
	var at unix.Stat_t
	if failed := raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &at) }); failed != nil {
		return 0, failed
	}
	return at.Ino, err
}

func checkPeerUser(uid uint32, err error) error {
	switch {
	case err != nil:
		return err
	case !mapsAllUsers() && uid == overflowUser():
		return fmt.Errorf("the connection comes from a user of this machine that has no uid in this user namespace (shown as %d)", uid)
	}
	return checkUser(int(uid))
}

// errNoTable means that a table lacks even our own end of a connection.
var errNoTable = errors.New("the kernel tells nothing of TCP sockets: neither by sock_diag nor in /proc/net/tcp")

// peerUser returns the user to whom the other end of an accepted connection belongs.
//
// A socket that its process has closed has the uid 0, so it must be open. Our own end, the
// socket with the given inode, must be alive after the other end was looked up: once it is
// reset, another user may connect from the same port, which makes another socket here. The
// other end is looked up twice because the kernel does not read uid and inode atomically.
func peerUser(t socketTable, inode uint64, local, remote netip.AddrPort) (uid uint32, err error) {
	peer, err := t.find(remote, local)
	if err != nil && !errors.Is(err, errNoSocket) {
		return 0, errNoTable
	}
	own, ownErr := t.find(local, remote)
	switch {
	case ownErr != nil:
		return 0, errNoTable
	case own.inode != uint32(inode): // tables have 32 bits of it
		return 0, errNoPeer
	case err != nil || !isConnected(own.state) || !isConnected(peer.state) || peer.inode == 0:
		return 0, errNoPeer
	}
	if again, err := t.find(remote, local); err != nil || again.inode != peer.inode || again.uid != peer.uid || !isConnected(again.state) {
		return 0, errNoPeer
	}
	return peer.uid, nil
}

// States of TCP sockets, from the kernel's include/net/tcp_states.h.
const (
	tcpEstablished = 1
	tcpFinWait1    = 4
	tcpFinWait2    = 5
	tcpCloseWait   = 8
	tcpLastAck     = 9
	tcpClosing     = 11
)

// isConnected reports whether a socket in a state has been connected, and is not over.
// Listeners and sockets that still try to connect can have the addresses too.
func isConnected(state uint8) bool {
	switch state {
	case tcpEstablished, tcpFinWait1, tcpFinWait2, tcpCloseWait, tcpLastAck, tcpClosing:
		return true
	}
	return false
}

// diag is a netlink socket for queries about sockets; see sock_diag(7).
type diag struct{ fd int }

func openDiag() (*diag, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	// The kernel answers within the call that sends, so a time-out costs nothing.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &diag{fd}, nil
}

func (d *diag) close() { unix.Close(d.fd) }

// Sizes and offsets of struct inet_diag_req_v2 and struct inet_diag_msg, behind the header
// of a netlink message.
const (
	nlHeader    = 16
	diagRequest = nlHeader + 56
	diagAnswer  = nlHeader + 72
)

func (d *diag) find(local, remote netip.AddrPort) (tcpSocket, error) {
	var q [diagRequest]byte
	native := binary.NativeEndian
	native.PutUint32(q[0:], diagRequest)
	native.PutUint16(q[4:], unix.SOCK_DIAG_BY_FAMILY)
	native.PutUint16(q[6:], unix.NLM_F_REQUEST)
	b := q[nlHeader:]
	b[0], b[1] = unix.AF_INET6, unix.IPPROTO_TCP
	if local.Addr().Is4() {
		b[0] = unix.AF_INET
	}
	native.PutUint32(b[4:], ^uint32(0)) // all states
	id := b[8:]
	binary.BigEndian.PutUint16(id[0:], local.Port())
	binary.BigEndian.PutUint16(id[2:], remote.Port())
	copy(id[4:20], local.Addr().AsSlice())
	copy(id[20:36], remote.Addr().AsSlice())
	native.PutUint64(id[40:], ^uint64(0)) // no cookie
	if err := unix.Sendto(d.fd, q[:], 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return tcpSocket{}, err
	}
	var buf [4096]byte
	n, from, err := unix.Recvfrom(d.fd, buf[:], 0)
	if err != nil {
		return tcpSocket{}, err
	}
	if kernel, ok := from.(*unix.SockaddrNetlink); !ok || kernel.Pid != 0 {
		return tcpSocket{}, errors.New("the answer is not the kernel's")
	}
	a := buf[:n]
	if len(a) >= nlHeader+4 && native.Uint16(a[4:]) == unix.NLMSG_ERROR {
		if errno := unix.Errno(-int32(native.Uint32(a[nlHeader:]))); errno != unix.ENOENT {
			return tcpSocket{}, errno
		}
		return tcpSocket{}, errNoSocket // or the kernel has no tcp_diag: then it finds nothing at all
	}
	if len(a) < diagAnswer || native.Uint16(a[4:]) != unix.SOCK_DIAG_BY_FAMILY {
		return tcpSocket{}, errors.New("the answer is none of sock_diag")
	}
	m := a[nlHeader:]
	if binary.BigEndian.Uint16(m[4:]) != local.Port() || binary.BigEndian.Uint16(m[6:]) != remote.Port() {
		return tcpSocket{}, errNoSocket // a listener
	}
	return tcpSocket{state: m[1], uid: native.Uint32(m[64:]), inode: native.Uint32(m[68:])}, nil
}

// procTable finds sockets in the files tcp and tcp6 of a folder, where sock_diag is missing.
type procTable struct{ folder string }

func (p procTable) find(local, remote netip.AddrPort) (tcpSocket, error) {
	seen := false
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(p.folder + "/" + name)
		if errors.Is(err, os.ErrNotExist) && name == "tcp6" {
			continue // without IPv6
		}
		if err != nil {
			return tcpSocket{}, err
		}
		seen = true
		found, err := scanTable(f, local, remote)
		f.Close()
		if !errors.Is(err, errNoSocket) {
			return found, err
		}
	}
	if !seen {
		return tcpSocket{}, errNoTable
	}
	return tcpSocket{}, errNoSocket
}

// scanTable reads a table in the form of /proc/net/tcp; see proc_net(5).
func scanTable(r io.Reader, local, remote netip.AddrPort) (tcpSocket, error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		// sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 {
			continue
		}
		if at, ok := tableAddress(fields[1]); !ok || at != local {
			continue
		}
		if at, ok := tableAddress(fields[2]); !ok || at != remote {
			continue
		}
		state, err1 := strconv.ParseUint(fields[3], 16, 8)
		uid, err2 := strconv.ParseUint(fields[7], 10, 32)
		inode, err3 := strconv.ParseUint(fields[9], 10, 32)
		return tcpSocket{uint8(state), uint32(uid), uint32(inode)}, errors.Join(err1, err2, err3)
	}
	if err := lines.Err(); err != nil {
		return tcpSocket{}, err
	}
	return tcpSocket{}, errNoSocket
}

// tableAddress parses an address such as 0100007F:1B9E: words of 32 bits as this machine
// stores them, and the port.
func tableAddress(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	raw, hexErr := hex.DecodeString(host)
	if err != nil || hexErr != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for word := range len(raw) / 4 {
		b := raw[4*word:]
		binary.NativeEndian.PutUint32(b, binary.BigEndian.Uint32(b))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok
}

// overflowUser returns the uid that a user namespace shows for users without a uid in it.
func overflowUser() uint32 {
	const usual = 65534
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return usual
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return usual
	}
	return uint32(n)
}

// mapsAllUsers reports whether every user has a uid in the user namespace of this process,
// as in that of the machine. It reads that once: a namespace's map is written once.
var mapsAllUsers = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(text)), " ") == "0 0 4294967295"
})
