// Package peer tells who is at the other end of a Unix socket.
package peer

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// ErrUnknown means that this system does not tell.
var ErrUnknown = errors.New("this system does not tell who is at the other end of a socket")

// Check returns an error unless the process at the other end of c belongs to this user and
// has the id pid. On systems that do not tell, it returns nil: there the folder of the
// socket must keep others away.
func Check(c net.Conn, pid int) error {
	user, process, err := Of(c)
	switch {
	case errors.Is(err, ErrUnknown):
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
