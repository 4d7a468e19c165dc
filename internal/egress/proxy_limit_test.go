package egress_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/toolroom/toolroom/internal/egress"
)

// counted is a listener that counts its open connections.
type counted struct {
	net.Listener
	mu         sync.Mutex
	open, most int
	full       chan struct{} // closed at egress.MaxConnections
}

func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	if c.open == egress.MaxConnections && c.most < c.open {
		close(c.full)
	}
	c.most = max(c.most, c.open)
	return &countedConn{Conn: conn, closed: sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open--
	})}, nil
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// A program may open as many connections as it likes. What Toolroom holds open for it, and so
// takes from everybody else, has a limit.
func TestAProgramsProxyHoldsALimitedNumberOfConnections(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &counted{Listener: inner, full: make(chan struct{})}
	done := make(chan struct{})
	defer close(done)
	egress.ServeProxy(l, &egress.Guard{}, nil, nil, done)
	var conns []net.Conn
	dial := func(n int) {
		for range n {
			c, err := net.Dial("tcp", inner.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
	}
	dial(egress.MaxConnections + 20)
	<-l.full
	dial(20)
	// Each is served once others have ended.
	for _, c := range conns {
		if _, err := io.WriteString(c, "GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(c); err != nil || len(text) == 0 {
			t.Errorf("%q, %v", text, err)
		}
		c.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most > egress.MaxConnections {
		t.Errorf("%d connections were open at once", l.most)
	}
}
