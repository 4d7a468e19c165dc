package code

import (
	"context"
	"net"
	"slices"
	"sync"

	"github.com/toolroom/toolroom"
)

// A program can request any number of addresses. These limit how many are reported for one
// run, and the bytes of each.
const (
	maxRefused        = 32
	maxRefusedAddress = 300
)

// refused records the refused connections of one program. It is safe for concurrent use.
type refused struct {
	mu   sync.Mutex
	list []toolroom.RefusedConnection
}

// dial wraps a dial function so that it records refusals. It reports each address once.
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

// note counts a refusal and reports whether it is the first of its address.
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
		one.Address, one.Reason = "", "too many addresses; the others are not listed"
	}
	n.list = append(n.list, one)
	return one, true
}

func (n *refused) all() []toolroom.RefusedConnection {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}
