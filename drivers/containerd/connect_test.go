//go:build linux

package containerd

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestACallerWhoseTimeIsOverDoesNotWaitForTheConnectionOfAnother(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "s") // a path short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	silent, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close() // which ends the first attempt
	d := New(Options{Address: silent.Addr().String()})
	connecting, end := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := d.connect(connecting)
		first <- err
	}()
	conn, err := silent.Accept() // and it answers nothing
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	late, over := context.WithCancel(t.Context())
	over()
	second := make(chan error, 1)
	go func() {
		_, err := d.connect(late)
		second <- err
	}()
	select {
	case err := <-second:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the second: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the second waits for the first")
	}
	end()
	if err := <-first; err == nil {
		t.Error("the first is connected to a server that says nothing")
	}
}
