package cli

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A client that does not wait for the server any longer runs its command itself.
func TestACommandBeginsOnlyIfItsClientStillWaits(t *testing.T) {
	t.Parallel()
	a, _ := newCLI(Program{Version: "1", In: bytes.NewReader(nil), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, func() {})
	s := &commandServer{cli: a, local: &localAPI{}, slots: make(chan struct{}, 1)}
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, waits := range []bool{true, false} {
		conn, err := net.Dial("unix", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if server, err := listener.Accept(); err == nil {
				s.serve(t.Context(), server)
			}
		}()
		client := &frameConn{conn: conn}
		if err := client.writeJSON(frameHello, hello{Version: "1", Args: []byteString{"--help"}, Command: "toolroom"}); err != nil {
			t.Fatal(err)
		}
		if kind, _, err := client.read(); kind != frameAccept || err != nil {
			t.Fatalf("the server answered %q, %v", kind, err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		if kind, _, err := client.read(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("before its client has begun the command, it sends %q, %v", kind, err)
		}
		if waits {
			_ = conn.SetReadDeadline(time.Time{})
			if err := client.write(frameBegin, nil); err != nil {
				t.Fatal(err)
			}
			kind, text, err := client.read()
			for kind == frameOut && err == nil {
				kind, text, err = client.read()
			}
			if kind != frameExit || !bytes.Equal(text, []byte{0}) || err != nil {
				t.Errorf("the command ended with %q %v, %v", kind, text, err)
			}
		}
		conn.Close()
		<-ended
	}
}
