package proxmox

import (
	"context"
	"net"
	"testing"

	"github.com/toolroom/toolroom/drivers/test/silent"
)

func TestACallerWhoseTimeIsOverDoesNotWaitForTheContainerOfAnother(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*Driver, context.Context) error{
		"the container for all runs": (*Driver).startLasting,
		"a clone": func(d *Driver, ctx context.Context) error {
			_, _, err := d.clone(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			d := New(Options{URL: "http://" + server.Addr().String(), Node: "n", Token: func(context.Context) (string, error) { return "", nil }})
			silent.Connect(t, server, func(ctx context.Context) error { return start(d, ctx) })
		})
	}
}
