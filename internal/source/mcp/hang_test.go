package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/source/mcp"
)

// hangs waits for the end of its context, as a look-up does whose store does not
// answer.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// hangingLogins are logins in a store that answers no more once hang is closed.
type hangingLogins struct {
	loginStore
	hang chan struct{}
}

func (s *hangingLogins) Load(ctx context.Context) ([]byte, error) {
	select {
	case <-s.hang:
		return nil, hangs(ctx)
	default:
		return s.loginStore.Load(ctx)
	}
}

// The runner does not abandon the calls of a source that cancels promptly:
// each of these would hold up its caller for as long as the thing it waits for.
func TestACallEndsWithItsTimeWhateverItWaitsFor(t *testing.T) {
	t.Parallel()
	r := newRemote(t, false)
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer locked.Close()
	logins := &hangingLogins{hang: make(chan struct{})}
	deaf := make(chan struct{})
	defer close(deaf)
	for name, c := range map[string]struct {
		config mcp.Config
		before func(s *mcp.Source)
		tool   string
		emit   func(toolroom.Event)
	}{
		"the secrets of a program": {config: mcp.Config{
			Command: os.Args[0],
			Env:     func(ctx context.Context) ([]string, error) { return nil, hangs(ctx) },
		}},
		"the secrets of a header": {config: mcp.Config{
			URL:    r.URL + "/mcp",
			Header: func(ctx context.Context) (http.Header, error) { return nil, hangs(ctx) },
		}},
		"a login that is kept": {
			config: mcp.Config{
				URL: locked.URL + "/mcp",
				Auth: func(string) *oauth.Client {
					return oauth.New(oauth.Config{Resource: locked.URL + "/mcp"}, logins, nil)
				},
			},
			before: func(s *mcp.Source) {
				if _, err := call(t.Context(), s, "any", nil); toolroom.CodeOf(err) != toolroom.CodeUnauthenticated {
					t.Errorf("before: %v", err)
				}
				close(logins.hang)
			},
		},
		"a program that says nothing": {config: program("mute")},
		"a caller that does not listen": {
			config: program("normal"), tool: "progress",
			emit: func(toolroom.Event) { <-deaf },
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Namespace, c.config.Owner = "odd", "test"
			s := mcp.New(c.config)
			defer s.Close()
			if !s.Describe().CancelsPromptly {
				t.Fatal("the source does not promise that its calls end")
			}
			if c.before != nil {
				c.before(s)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := call(ctx, s, c.tool, c.emit)
				ended <- err
			}()
			<-ctx.Done()
			_ = s.Describe() // nobody waits for what the call waits for
			select {
			case err := <-ended:
				// The tool may have answered: only its caller does not hear of it.
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the call ended with %v", err)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("the call goes on")
			}
		})
	}
}

func program(how string) mcp.Config {
	return mcp.Config{
		Command: os.Args[0],
		Env: func(context.Context) ([]string, error) {
			return append(os.Environ(), serverVariable+"="+how), nil
		},
	}
}

// A server with a single thread reads nothing more after a call that hangs. The calls
// after it must not be sent to a process that is about to be ended.
func TestACallAfterOneThatHangsGoesToANewProcess(t *testing.T) {
	t.Parallel()
	s := odd(t, "normal")
	old, err := call(t.Context(), s, "any", nil)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := call(short, s, "blocks", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the call that hangs: %v", err)
	}
	innocent, err := call(t.Context(), s, "any", nil)
	if err != nil {
		t.Fatalf("the next call: %v", err)
	}
	if string(innocent.Content[0].Text) == string(old.Content[0].Text) {
		t.Error("the next call was answered by the process that hangs")
	}
}

// A call that was sent before the server was given up fails, and says why.
func TestACallBesideOneThatHangsSaysWhyItsServerWasEnded(t *testing.T) {
	t.Parallel()
	signs := t.TempDir() + "/signs"
	if err := os.WriteFile(signs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := odd(t, "normal", hangingVariable+"="+signs)
	beside := make(chan error, 1)
	short, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	hung := make(chan error, 1)
	go func() {
		_, err := call(short, s, "blocks", nil)
		hung <- err
	}()
	for said, _ := os.ReadFile(signs); len(said) == 0; said, _ = os.ReadFile(signs) {
		time.Sleep(10 * time.Millisecond)
	}
	go func() {
		out, err := call(t.Context(), s, "any", nil)
		if err == nil || out.Unsent {
			err = fmt.Errorf("it was not sent to the old process: %v", err)
		}
		beside <- err
	}()
	time.Sleep(300 * time.Millisecond) // sends the second call
	cancel(context.DeadlineExceeded)
	<-hung
	err := <-beside
	if toolroom.CodeOf(err) != toolroom.CodeUpstreamUnavailable || !strings.Contains(err.Error(), "because the request to call blocks timed out") {
		t.Errorf("got %v", err)
	}
}
