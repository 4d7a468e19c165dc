package serve_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
	"github.com/toolroom/toolroom/serve"
)

// A program that calls its room while it serves it, and serves it again later. The race
// detector judges.
func TestAProgramMayCallWhileItServes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "toolroom.yaml")
	const config = `server: {url: "https://tools.example", auth: {oauth: {issuers: ["https://id.example"], scopes: {"count:use": ["count.*"]}}}}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := room.Open(t.Context(), room.Options{Home: t.TempDir(), ConfigFile: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	type step struct {
		By int `json:"by"`
	}
	if err := room.Register(r, "count:up", "Counts.", func(_ context.Context, in step) (int, error) { return in.By, nil }); err != nil {
		t.Fatal(err)
	}
	call := toolroom.Call{Tool: "count:up", Arguments: toolroom.Args{"by": 1}.JSON()}
	done := make(chan struct{})
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			for {
				if result := r.Run(context.Background(), call); !result.OK() {
					t.Error(result.Error)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		address, ended := make(chan net.Addr, 1), make(chan error, 1)
		go func() {
			ended <- serve.HTTP(ctx, r, serve.Options{Listen: "127.0.0.1:0", Started: func(a net.Addr) { address <- a }})
		}()
		select {
		case at := <-address:
			if result := r.Run(ctx, call); !result.OK() {
				t.Error(result.Error)
			}
			if metrics := get(t, "http://"+at.String()+"/metrics"); !strings.Contains(metrics, `toolroom_calls_total{status="ok",surface="go",tool="count:up"}`) {
				t.Errorf("the metrics lack the calls of the program:\n%s", metrics)
			}
		case err := <-ended:
			t.Fatal(err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	close(done)
	callers.Wait()
	limited := call
	limited.Identity = toolroom.Identity{Subject: "ada", Scopes: []string{"other"}}
	if result := r.Run(t.Context(), limited); toolroom.CodeOf(result.Err()) != toolroom.CodeDenied {
		t.Errorf("a token without the scope: got %v", result.Err())
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
