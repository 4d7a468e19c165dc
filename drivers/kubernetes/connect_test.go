package kubernetes

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
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	file := filepath.Join(t.TempDir(), "config")
	config := "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: 'http://" + server.Addr().String() + "'}}], contexts: [{name: c, context: {cluster: c}}]}"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d := New(Options{Kubeconfig: file, Namespace: "programs"})
	silent.Connect(t, server, func(ctx context.Context) error {
		_, err := d.connect(ctx)
		return err
	})
}
