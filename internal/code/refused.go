package code

import (
	"context"
	"net"
	"slices"
	"sync"

	"github.com/toolroom/toolroom"
)

// A program can ask for as many addresses as it likes: of a run this many are
// named, and of each this many bytes.
const (
	maxRefused        = 32
	maxRefusedAddress = 300
)

// refused are the connections that one program was refused. It is safe for
// concurrent use.
type refused struct {
	mu   sync.Mutex
	list []toolroom.RefusedConnection
}

// dial is a way to connect that notes what is refused, and tells of each address
// once.
func (n *refused) dial(dial func(context.Context, string) (net.Conn, error), tell func(toolroom.RefusedConnection)) func(context.Context, string) (net.Conn, error) {
	if dial == nil {
		return nil
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if toolroom.CodeOf(err) == toolroom.CodeDenied {
			if one, first := n.note(address, toolroom.AsError(err).Message); first {
				tell(one)
			}
		}
		return conn, err
	}
}

// note counts a refusal, and tells whether it is the first of its address.
func (n *refused) note(address, reason string) (one toolroom.RefusedConnection, first bool) {
	address = address[:min(len(address), maxRefusedAddress)]
	n.mu.Lock()
	defer n.mu.Unlock()
	at := slices.IndexFunc(n.list, func(c toolroom.RefusedConnection) bool { return c.Address == address })
	if at < 0 && len(n.list) > maxRefused {
		at = maxRefused
	}
	if at >= 0 {
		n.list[at].Times++
		return n.list[at], false
	}
	one = toolroom.RefusedConnection{Address: address, Reason: reason, Times: 1}
	if len(n.list) == maxRefused {
		one.Address, one.Reason = "", "these and further addresses are not named: they are too many"
	}
	n.list = append(n.list, one)
	return one, true
}

func (n *refused) all() []toolroom.RefusedConnection {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}
