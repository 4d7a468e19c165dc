package auth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/auth"
)

func TestOneTokenCannotTakeTheWholeServer(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	h := auth.Middleware(auth.Options{
		Required: auth.Always, MaxPerCaller: 2,
		Verify: func(_ context.Context, token string) (toolroom.Identity, error) {
			return toolroom.Identity{Subject: token}, nil
		},
	})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			arrived <- struct{}{}
			<-release
		}
	}))
	server := httptest.NewServer(h)
	defer server.Close()
	get := func(path, token string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	ended := make(chan int, 2)
	for range 2 {
		go func() { ended <- get("/stream", "eve") }()
		<-arrived
	}
	if status := get("/", "eve"); status != http.StatusTooManyRequests {
		t.Errorf("a third request of eve: %d", status)
	}
	if status := get("/", "ann"); status != http.StatusOK {
		t.Errorf("a request of ann: %d", status)
	}
	close(release)
	<-ended
	<-ended
	if status := get("/", "eve"); status != http.StatusOK {
		t.Errorf("a request of eve after her streams ended: %d", status)
	}
}

func TestPathsWithoutATokenAreLimitedByAddressAndAreNotTheOperators(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan string), make(chan struct{})
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("hold") {
			arrived <- auth.Identity(r.Context()).Key()
			<-release
		}
	})
	o := auth.Options{Required: auth.Auto, MaxPerCaller: 2, Open: []string{"/open", "/probe"}}
	for name, h := range map[string]http.Handler{"/open": auth.Middleware(o)(handler), "/link": auth.Anonymous(o)(handler)} {
		server := httptest.NewUnstartedServer(h)
		server.Config.ConnContext = auth.ConnContext
		server.Start()
		get := func(path string) int {
			resp, err := http.Get(server.URL + path)
			if err != nil {
				t.Error(err)
				return 0
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		ended := make(chan int, 2)
		for range 2 {
			go func() { ended <- get(name + "?hold") }()
			if who := <-arrived; name == "/open" && who != auth.Anyone {
				t.Errorf("%s is called by %q", name, who)
			}
		}
		if status := get(name); status != http.StatusTooManyRequests {
			t.Errorf("a third request to %s: %d", name, status)
		}
		if name == "/open" && (get("/probe") != http.StatusOK || get("/api") != http.StatusOK) {
			t.Error("requests to one path keep others out")
		}
		release <- struct{}{}
		release <- struct{}{}
		<-ended
		<-ended
		if status := get(name); status != http.StatusOK {
			t.Errorf("a request to %s after the others ended: %d", name, status)
		}
		server.Close()
	}
}
