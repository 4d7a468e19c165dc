package temporal

import (
	"context"
	"net"
	"strings"
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
	w := New(Options{
		Address: server.Addr().String(),
		Secret:  func(context.Context) (string, error) { return strings.Repeat("s", minSecret), nil },
	})
	silent.Connect(t, server, func(ctx context.Context) error {
		_, err := w.client(ctx)
		return err
	})
}

func TestAProbeSaysWhatToDoOnTheCommandLine(t *testing.T) {
	t.Parallel()
	w := New(Options{Secret: func(context.Context) (string, error) { return "short", nil }})
	if p := w.Probe(t.Context()); !strings.Contains(p.Fix, "toolroom secret set temporal/key") {
		t.Errorf("the probe does not say how to set the secret: %+v", p)
	}
}
