package server

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

// A server that is stopped while a tool runs ends after the tool, and the caller gets the result.
func TestAStoppedServerLetsItsCallsFinish(t *testing.T) {
	t.Parallel()
	r, err := app.Open(t.Context(), app.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	begun, finish := make(chan struct{}), make(chan struct{})
	tool := toolroom.Tool{ID: toolroom.ID{Namespace: "few", Name: "slow"}, Description: "For the test."}
	err = app.RegisterTool(r, tool, func(ctx context.Context, _ struct{}) (string, error) {
		close(begun)
		select {
		case <-finish:
			return "done", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	address, served := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		served <- Serve(ctx, r, Options{Listen: "127.0.0.1:0", Version: "test", Started: func(a net.Addr) { address <- a }})
	}()
	url := "http://" + (<-address).String() + "/api/v1/call"
	var answer struct{ Status, Value string }
	answered := make(chan error, 1)
	go func() {
		res, err := http.Post(url, "application/json", strings.NewReader(`{"tool": "few:slow"}`))
		if err == nil {
			err = json.NewDecoder(res.Body).Decode(&answer)
			res.Body.Close()
		}
		answered <- err
	}()
	<-begun
	stop()
	for { // until it is stopping
		conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/api/v1/call"))
		if err != nil {
			break
		}
		conn.Close()
	}
	close(finish)
	if err := <-answered; err != nil || answer.Status != "ok" || answer.Value != "done" {
		t.Errorf("the caller got %+v, %v", answer, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A caller whose call outlives the time that a stopped server gives it gets the error of its
// call, with what to do next, instead of a connection that is cut.
func TestACallThatOutlivesTheServerSaysSo(t *testing.T) {
	t.Parallel()
	r, err := app.Open(t.Context(), app.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const calls = 20 // so that a cut one is among them
	var begun sync.WaitGroup
	begun.Add(calls)
	tool := toolroom.Tool{ID: toolroom.ID{Namespace: "few", Name: "endless"}, Description: "For the test."}
	err = app.RegisterTool(r, tool, func(ctx context.Context, _ struct{}) (string, error) {
		begun.Done()
		<-ctx.Done()
		return "", ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	address, served := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		served <- Serve(ctx, r, Options{Listen: "127.0.0.1:0", Version: "test", drain: 50 * time.Millisecond, Started: func(a net.Addr) { address <- a }})
	}()
	url := "http://" + (<-address).String() + "/api/v1/call"
	var callers sync.WaitGroup
	for range calls {
		callers.Go(func() {
			res, err := http.Post(url, "application/json", strings.NewReader(`{"tool": "few:endless"}`))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			var answer struct{ Error *toolroom.Error }
			if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || answer.Error == nil || answer.Error.Code != toolroom.CodeCancelled || !strings.Contains(answer.Error.Hint, "when the server is back") {
				t.Errorf("the caller got %d, %+v, %v", res.StatusCode, answer.Error, err)
			}
		})
	}
	begun.Wait()
	stop()
	callers.Wait()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
