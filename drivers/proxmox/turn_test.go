package proxmox

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

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

func TestAProbeDoesNotWaitForTheCleaningOfAnother(t *testing.T) {
	t.Parallel()
	cleaning := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api2/json/version" {
			_, _ = io.WriteString(w, `{"data": {"version": "8.4"}}`)
			return
		}
		cleaning <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	d := New(Options{
		URL: server.URL, Node: "n", Token: func(context.Context) (string, error) { return "", nil },
		Alive: func(string) bool { return true },
	})
	first, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Probe(first) }()
	<-cleaning
	short, done := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer done()
	second := make(chan struct{})
	go func() { defer close(second); d.Probe(short) }()
	select {
	case <-second:
	case <-time.After(20 * time.Second):
		t.Error("a probe waits for the cleaning of another, though its caller has gone")
	}
	cancel()
	<-ended
}
