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

// refusalLog records the refused connections of one program. It is safe for concurrent use.
type refusalLog struct {
	mu   sync.Mutex
	list []toolroom.RefusedConnection
}

// wrapDial returns a dial function that records refusals. It calls report once for each
// refused address.
func (n *refusalLog) wrapDial(dial func(context.Context, string) (net.Conn, error), report func(toolroom.RefusedConnection)) func(context.Context, string) (net.Conn, error) {
	if dial == nil {
		return nil
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if toolroom.CodeOf(err) == toolroom.CodeDenied {
			if one, first := n.add(address, toolroom.AsError(err).Message); first {
				report(one)
			}
		}
		return conn, err
	}
}

// add counts a refusal. It reports whether it is the first one of its address.
func (n *refusalLog) add(address, reason string) (one toolroom.RefusedConnection, first bool) {
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

func (n *refusalLog) all() []toolroom.RefusedConnection {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}
