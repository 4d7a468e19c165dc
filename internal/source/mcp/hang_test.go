package mcp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
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
