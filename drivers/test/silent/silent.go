// Package silent tests drivers against a server that accepts connections and says nothing.
package silent

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// Connect tests that a caller whose time is over does not wait until connect, which connects
// to l, has ended for another caller.
func Connect(t *testing.T, l net.Listener, connect func(context.Context) error) {
	t.Helper()
	connecting, end := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- connect(connecting) }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	late, over := context.WithCancel(t.Context())
	over()
	second := make(chan error, 1)
	go func() { second <- connect(late) }()
	select {
	case err := <-second:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the second: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the second waits for the first")
	}
	end()
	l.Close() // which ends the first attempt
	if err := <-first; err == nil {
		t.Error("the first is connected to a server that says nothing")
	}
}
