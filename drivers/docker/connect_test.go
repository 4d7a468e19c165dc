package docker

import (
	"context"
	"net"
	"testing"

	"github.com/toolroom/toolroom/drivers/test/silent"
)

func TestACallerWhoseTimeIsOverDoesNotWaitForTheConnectionOfAnother(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	d := New(Options{Host: "tcp://" + server.Addr().String()})
	silent.Connect(t, server, func(ctx context.Context) error {
		_, err := d.connect(ctx)
		return err
	})
}
