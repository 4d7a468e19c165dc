package shell

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A command may open as many connections as it likes. What Toolroom holds open for it has a
// limit.
func TestACommandHoldsALimitedNumberOfConnections(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	open, most := 0, 0
	full, release := make(chan struct{}), make(chan struct{})
	dial := func() (net.Conn, error) {
		mu.Lock()
		open++
		if open == maxForwarded && most < open {
			close(full)
		}
		most = max(most, open)
		mu.Unlock()
		far, server := net.Pipe()
		go func() {
			<-release
			_, _ = io.WriteString(server, "served")
			mu.Lock()
			open--
			mu.Unlock()
			server.Close()
		}()
		return far, nil
	}
	slots := make(chan struct{}, maxForwarded)
	var conns []net.Conn
	connect := func(address string, n int) {
		for range n {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
	}
	var addresses []string
	for range 2 { // its limit holds for all ports together
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go forward(l, slots, dial)
		addresses = append(addresses, l.Addr().String())
	}
	connect(addresses[0], maxForwarded/2+20)
	connect(addresses[1], maxForwarded/2+20)
	<-full
	connect(addresses[0], 20)
	close(release)
	for _, c := range conns {
		if text, err := io.ReadAll(c); string(text) != "served" {
			t.Errorf("%q, %v", text, err)
		}
		c.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	if most > maxForwarded {
		t.Errorf("%d connections were open at once", most)
	}
}
