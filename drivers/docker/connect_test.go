package docker

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

func TestACallerWhoseTimeIsOverDoesNotWaitForTheConnectionOfAnother(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close() // which ends the first attempt
	d := New(Options{Host: "tcp://" + silent.Addr().String()})
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
