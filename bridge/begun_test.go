package bridge_test

import (
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/toolroom/toolroom/bridge"
)

// A socket of this machine is reset only if what was sent waits there unread. A connection over
// a network is also reset when a machine starts again, or by what is in between, after the
// program has begun: running it again would do everything twice.
func TestAResetOverANetworkDoesNotMeanThatTheProgramHasNotBegun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		network, address string
		read             bool // the guest has read the program
		notBegun         bool
	}{
		{"tcp", "127.0.0.1:0", true, false},
		{"tcp", "127.0.0.1:0", false, false},
		{"unix", filepath.Join(t.TempDir(), "s"), false, true},
	} {
		listener, err := net.Listen(tt.network, tt.address)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		here, err := net.Dial(tt.network, listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		there, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		guest := bridge.NewWire(there)
		if err := guest.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{"versions", []bridge.Value{int64(bridge.Version)}}}}); err != nil {
			t.Fatal(err)
		}
		conn, err := bridge.Accept(t.Context(), here, bridge.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		began := make(chan error, 1)
		go func() {
			_, err := conn.Run(t.Context(), bridge.Program{Language: "python", Source: "1"}, nil)
			began <- err
		}()
		one := make([]byte, 1)
		if _, err := there.Read(one); err != nil { // the program has come
			t.Fatal(err)
		}
		if tt.read {
			if _, err := there.Read(make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		if tcp, ok := there.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		there.Close()
		if err := <-began; !errors.Is(err, syscall.ECONNRESET) || errors.Is(err, bridge.ErrNotBegun) != tt.notBegun {
			t.Errorf("%s, read %v: %v", tt.network, tt.read, err)
		}
	}
}
