package proc

import (
	"errors"
	"fmt"
	"net"
	"os"
)

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
