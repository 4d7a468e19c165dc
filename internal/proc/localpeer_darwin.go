package proc

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

func checkLocalPeer(_ net.Conn, local, remote netip.AddrPort) error {
	list, err := unix.SysctlRaw("net.inet.tcp.pcblist_n")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnknownPeer, err)
	}
	uid, found, err := pcbUser(list, remote, local, uint32(os.Geteuid()))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnknownPeer, err)
	case !found: // the list was taken at once, and has our own end
		return errNoPeer
	}
	return checkUser(int(uid))
}
