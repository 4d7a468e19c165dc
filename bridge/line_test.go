package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// outward is a call handler that connects programs with dial.
type outward struct {
	bridge.Handler
	dial func(ctx context.Context, address string) (net.Conn, error)
}

func (o outward) Dial(ctx context.Context, address string) (net.Conn, error) {
	return o.dial(ctx, address)
}

// connected runs guest against a server that dials with dial, and returns the
// error of the server's Run.
func connected(t *testing.T, dial func(context.Context, string) (net.Conn, error), guest func(w *bridge.Wire, token []byte, lines *bridge.Lines)) error {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	var ended sync.WaitGroup
	defer ended.Wait()
	ended.Go(func() {
		w := bridge.NewWire(there)
		_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{Key: "versions", Value: []bridge.Value{int64(1)}}}})
		start, _, err := w.Read()
		if err != nil {
			return
		}
		lines := bridge.NewLines(func(id uint64, body bridge.Map) error {
			return w.Write(bridge.Frame{Kind: bridge.Out, ID: id, Token: start.Token, Body: body})
		})
		ended.Go(func() {
			defer lines.Close()
			for {
				f, _, err := w.Read()
				if err != nil {
					return
				}
				if err := lines.Handle(f); err != nil {
					t.Error(err)
				}
			}
		})
		guest(w, start.Token, lines)
		_ = w.Write(bridge.Frame{Kind: bridge.Done, Token: start.Token})
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := bridge.Accept(ctx, here, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var h bridge.Handler = silent{}
	if dial != nil {
		h = outward{silent{}, dial}
	}
	_, err = conn.Run(ctx, bridge.Program{}, h)
	return err
}

// silent is a call handler that gets no requests.
type silent struct{ bridge.Handler }

// server serves every connection with serve, and returns a function that dials it.
func server(t *testing.T, serve func(*net.TCPConn)) func(context.Context, string) (net.Conn, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn.(*net.TCPConn))
		}
	}()
	return func(ctx context.Context, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", l.Addr().String())
	}
}

func TestALineCarriesMuchInBothDirectionsAndEndsEachSeparately(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	dial := server(t, func(c *net.TCPConn) {
		defer c.Close()
		n, _ := io.Copy(io.Discard, c) // until the program ends its direction
		if n == size {
			_, _ = c.Write(bytes.Repeat([]byte("y"), size))
		}
	})
	err := connected(t, dial, func(_ *bridge.Wire, _ []byte, lines *bridge.Lines) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				line, err := lines.Open(t.Context(), "example.com:443")
				if err != nil {
					t.Error(err)
					return
				}
				defer line.Close()
				if _, err := line.Write(bytes.Repeat([]byte("x"), size)); err != nil {
					t.Error(err)
				}
				if err := line.CloseWrite(); err != nil {
					t.Error(err)
				}
				if got, err := io.ReadAll(line); err != nil || len(got) != size {
					t.Errorf("%d bytes came back, %v", len(got), err)
				}
			})
		}
		all.Wait()
	})
	if err != nil {
		t.Error(err)
	}
}

func TestALineThatIsNotReadDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	dial := server(t, func(c *net.TCPConn) {
		defer c.Close()
		_, _ = c.Write(bytes.Repeat([]byte("y"), 8<<20))
	})
	err := connected(t, dial, func(_ *bridge.Wire, _ []byte, lines *bridge.Lines) {
		idle, err := lines.Open(t.Context(), "a:1")
		if err != nil {
			t.Error(err)
			return
		}
		defer idle.Close()
		line, err := lines.Open(t.Context(), "a:1")
		if err != nil {
			t.Error(err)
			return
		}
		defer line.Close()
		if n, err := io.Copy(io.Discard, line); err != nil || n != 8<<20 {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestARefusalReachesTheProgram(t *testing.T) {
	t.Parallel()
	dial := func(_ context.Context, address string) (net.Conn, error) {
		return nil, toolroom.Errorf(toolroom.CodeDenied, "%s may not be reached", address).WithHint("allow it")
	}
	err := connected(t, dial, func(_ *bridge.Wire, _ []byte, lines *bridge.Lines) {
		_, err := lines.Open(t.Context(), "evil.example:443")
		var e *toolroom.Error
		if !errors.As(err, &e) || e.Code != toolroom.CodeDenied || e.Hint != "allow it" || !strings.Contains(e.Message, "evil.example:443") {
			t.Errorf("%+v", err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAConnectionThatBreaksOffEndsItsLine(t *testing.T) {
	t.Parallel()
	dial := server(t, func(c *net.TCPConn) {
		_ = c.SetLinger(0) // reset
		c.Close()
	})
	err := connected(t, dial, func(_ *bridge.Wire, _ []byte, lines *bridge.Lines) {
		line, err := lines.Open(t.Context(), "a:1")
		if err != nil {
			return // it was quicker than we
		}
		if _, err := io.ReadAll(line); err == nil {
			t.Error("the line ended as if all had been said")
		}
		for err == nil {
			_, err = line.Write(make([]byte, 1<<10))
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAGuestThatViolatesTheRulesOfLinesEndsItsRun(t *testing.T) {
	t.Parallel()
	held := server(t, func(c *net.TCPConn) { _, _ = c.Read(make([]byte, 1)) }) // and reads no more
	type frames func(id uint64, m bridge.Member)
	for _, tt := range []struct {
		name string
		dial func(context.Context, string) (net.Conn, error)
		do   func(send frames)
	}{
		{"no way out", nil, func(send frames) { send(1, bridge.Member{Key: "to", Value: "a:1"}) }},
		{"opened twice", held, func(send frames) {
			send(1, bridge.Member{Key: "to", Value: "a:1"})
			send(1, bridge.Member{Key: "to", Value: "a:1"})
		}},
		{"more than the window", func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, func(send frames) {
			send(1, bridge.Member{Key: "to", Value: "a:1"})
			for range 10 {
				send(1, bridge.Member{Key: "data", Value: make([]byte, 64<<10)})
			}
		}},
		{"took what was not sent", held, func(send frames) {
			send(1, bridge.Member{Key: "to", Value: "a:1"})
			send(1, bridge.Member{Key: "taken", Value: int64(1 << 40)})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := connected(t, tt.dial, func(w *bridge.Wire, token []byte, _ *bridge.Lines) {
				tt.do(func(id uint64, m bridge.Member) {
					_ = w.Write(bridge.Frame{Kind: bridge.Out, ID: id, Token: token, Body: bridge.Map{m}})
				})
			})
			if !errors.Is(err, bridge.ErrProtocol) {
				t.Errorf("the run ended with %v", err)
			}
		})
	}
}

func TestOfAThousandLinesNoMoreThan64AreDialled(t *testing.T) {
	t.Parallel()
	var dialled atomic.Int64
	err := connected(t, func(ctx context.Context, _ string) (net.Conn, error) {
		dialled.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}, func(w *bridge.Wire, token []byte, _ *bridge.Lines) {
		for id := range uint64(1000) {
			_ = w.Write(bridge.Frame{Kind: bridge.Out, ID: id, Token: token, Body: bridge.Map{{Key: "to", Value: "a:1"}}})
		}
	})
	// If lines are opened faster than they are refused, the run ends.
	if err != nil && !errors.Is(err, bridge.ErrProtocol) {
		t.Errorf("the run ended with %v", err)
	}
	if n := dialled.Load(); n == 0 || n > 64 {
		t.Errorf("%d lines were dialled", n)
	}
}

func TestADialThatEndsAfterItsRunSendsNothing(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	dialed, result := make(chan struct{}), make(chan error)
	dial := func(context.Context, string) (net.Conn, error) {
		close(dialed)
		return nil, <-result // it does not heed the end of the run
	}
	go func() {
		w := bridge.NewWire(there)
		_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{Key: "versions", Value: []bridge.Value{int64(1)}}}})
		start, _, _ := w.Read()
		_ = w.Write(bridge.Frame{Kind: bridge.Out, ID: 1, Token: start.Token, Body: bridge.Map{{Key: "to", Value: "example.com:443"}}})
		<-dialed
		_ = w.Write(bridge.Frame{Kind: bridge.Done, Token: start.Token})
	}()
	counted := &countedWrites{Conn: here}
	conn, err := bridge.Accept(t.Context(), counted, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Run(t.Context(), bridge.Program{}, outward{silent{}, dial}); err != nil {
		t.Fatal(err)
	}
	before := counted.writes.Load()
	// The late refusal writes at once, or never: wait until its goroutine is gone.
	result <- errors.New("too late")
	for deadline := time.Now().Add(5 * time.Second); dialling() && time.Now().Before(deadline); {
		if counted.writes.Load() != before {
			break
		}
		runtime.Gosched()
	}
	if n := counted.writes.Load() - before; n != 0 {
		t.Errorf("%d frames were written after the run", n)
	}
}

// countedWrites counts the writes that were begun.
type countedWrites struct {
	net.Conn
	writes atomic.Int64
}

func (c *countedWrites) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// dialling reports whether a goroutine connects a line.
func dialling() bool {
	stacks := make([]byte, 1<<20)
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "(*Line).refuse")
}
