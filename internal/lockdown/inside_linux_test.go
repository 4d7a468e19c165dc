//go:build amd64 || arm64

package lockdown

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom/internal/proc"
)

// A dial that is given up returns at once, and its late answer goes to nobody else.
func TestADialThatIsGivenUpLeavesNoAnswerToTheNext(t *testing.T) {
	t.Parallel()
	ours, theirs, err := proc.SocketPair(unix.SOCK_STREAM)
	if err != nil {
		t.Fatal(err)
	}
	init, err := net.FileConn(theirs)
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer init.Close()
	in := &insideSockets{conn: ours, turn: make(chan struct{}, 1)}
	defer in.close()

	asked := func() byte {
		port := make([]byte, 2)
		if _, err := io.ReadFull(init, port); err != nil {
			t.Error(err)
		}
		return port[1]
	}
	// answer hands over a socket at which the port can be read.
	answer := func(port byte) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fds[1])
		defer unix.Close(fds[0])
		if _, err := unix.Write(fds[1], []byte{port}); err != nil {
			t.Error(err)
		}
		if _, _, err := init.(*net.UnixConn).WriteMsgUnix([]byte{0}, unix.UnixRights(fds[0]), nil); err != nil {
			t.Error(err)
		}
	}

	ctx, giveUp := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	first := make(chan error, 1)
	go func() {
		_, err := in.dial(ctx, 1)
		first <- err
	}()
	if asked() != 1 {
		t.Fatal("another port")
	}
	giveUp(enough)
	if err := <-first; !errors.Is(err, enough) {
		t.Fatalf("given up before its answer: %v", err)
	}
	if _, err := in.dial(ctx, 3); !errors.Is(err, enough) {
		t.Errorf("given up before its turn: %v", err)
	}
	second := make(chan net.Conn, 1)
	go func() {
		conn, err := in.dial(t.Context(), 2)
		if err != nil {
			t.Error(err)
		}
		second <- conn
	}()
	answer(1)
	if port := asked(); port != 2 {
		t.Errorf("asked for port %d", port)
	}
	answer(2)
	conn := <-second
	if conn == nil {
		t.FailNow()
	}
	defer conn.Close()
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, []byte{2}) {
		t.Errorf("%v %v", got, err)
	}
}
