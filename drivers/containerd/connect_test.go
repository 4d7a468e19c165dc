//go:build linux

package containerd

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom/drivers/test/silent"
)

func TestACallerWhoseTimeIsOverDoesNotWaitForTheConnectionOfAnother(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "s") // a path short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	d := New(Options{Address: server.Addr().String()})
	silent.Connect(t, server, func(ctx context.Context) error {
		_, err := d.connect(ctx)
		return err
	})
}
