package api_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/server/api"
	"github.com/toolroom/toolroom/internal/server/auth"
)

func TestAStreamEndsWhenItsTokenIsRevoked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var revoked atomic.Bool
	guard := auth.Middleware(auth.Options{Listen: "127.0.0.1:0", Verify: func(context.Context, string) (toolroom.Identity, error) {
		if revoked.Load() {
			return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeUnauthenticated, "the token was revoked")
		}
		return people["olga"], nil
	}})
	server := httptest.NewUnstartedServer(guard(api.New(api.Options{
		Runner: b.runner, Approvals: approval.New(b.memory, approval.Options{}), KeepAlive: 20 * time.Millisecond,
	})))
	server.Config.ConnContext = auth.ConnContext
	server.Start()
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var streams []io.Reader
	for _, path := range []string{"/events", "/approvals/events"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer x")
		res, err := server.Client().Do(req)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res, err)
		}
		defer res.Body.Close()
		streams = append(streams, res.Body)
	}
	time.Sleep(100 * time.Millisecond) // a valid one goes on
	if _, err := streams[0].Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	revoked.Store(true)
	for i, stream := range streams {
		if _, err := io.Copy(io.Discard, stream); err != nil {
			t.Errorf("stream %d: %v", i, err)
		}
	}
}
