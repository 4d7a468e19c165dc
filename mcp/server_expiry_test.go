package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A client that asks its user may take hours, as long as it is connected. One that has gone
// must not keep a call, and its tool, forever.
func TestAQuestionToAClientThatHasGoneEndsWithItsSession(t *testing.T) {
	t.Parallel()
	for name, connected := range map[string]bool{"gone": false, "connected": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, err := NewServer(ServerOptions{
					Name: "x", Version: "1",
					Handle: func(context.Context, *ServerRequest) (json.RawMessage, error) { return nil, nil },
				})
				if err != nil {
					t.Fatal(err)
				}
				session, ok := s.newSession(t.Context())
				if !ok || !session.initialize(legacyVersion, nil, nil) {
					t.Fatal("the session did not begin")
				}
				if err := session.addRequest(json.RawMessage("1"), func(error) {}); err != nil {
					t.Fatal(err)
				}
				out := session.streams.open()
				if connected {
					if _, err := out.connect(httptest.NewRecorder(), -1); err != nil {
						t.Fatal(err)
					}
				}
				answered := make(chan error, 1)
				go func() {
					_, err := session.ask(t.Context(), Question{Method: "elicitation/create"}, func(text []byte) error { return out.send(text, false) })
					answered <- err
				}()
				time.Sleep(3 * sessionTimeout)
				synctest.Wait()
				select {
				case err := <-answered:
					if connected || !errors.Is(err, errDisconnected) {
						t.Errorf("the question ended with %v", err)
					}
				default:
					if !connected {
						t.Error("the question is still open")
					}
				}
				s.Close()
				synctest.Wait()
			})
		})
	}
}
