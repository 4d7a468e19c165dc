package app_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/test/double"
)

// A person logs in for a caller, whose calls then renew the token; nobody else's use it.
func TestTheGoogleToolsUseTheLoginOfTheirCaller(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(double.Google())
	defer s.Close()
	w := newWorkshop(t, fmt.Sprintf("builtin: {google: {client_id: id, client_secret: hush-hush, url: %q}}", s.URL))
	ann := toolroom.Identity{Subject: "ann"}
	if r := w.as("ann", "tasks:list", map[string]any{}); r.OK() || r.Error.Code != toolroom.CodeUnauthenticated || !strings.Contains(r.Error.Hint, "sources login google --as ann") {
		t.Fatalf("%+v", r.Error)
	}
	visit := func(ctx context.Context, address string) (string, error) {
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return "", err
		}
		response, err := client.Do(r)
		if err != nil {
			return "", err
		}
		return response.Header.Get("Location"), response.Body.Close()
	}
	if err := w.Login(t.Context(), "google", ann, "http://127.0.0.1:1/callback", visit); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r := w.as("ann", "gmail:read", map[string]any{"id": "m1"})
		if !r.OK() || !strings.Contains(r.Text(), "Please pay 5 €.") || !slices.Contains(r.Labels, "private") || !slices.Contains(r.Labels, "untrusted") {
			t.Errorf("%+v %v", r.Error, r.Labels)
		}
	}
	for _, who := range []toolroom.Identity{{Subject: "bob"}, {Subject: "ann", Agent: "other"}} {
		r := w.Run(t.Context(), toolroom.Call{Tool: "tasks:list", Arguments: toolroom.Args{}.JSON(), Identity: who})
		if r.OK() || r.Error.Code != toolroom.CodeUnauthenticated {
			t.Errorf("%s uses another's login: %+v", who, r)
		}
	}
}

// A source has precedence over the tools of a pack that is off by default.
func TestASourceTakesTheNameOfAGoogleService(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "builtin: {google: {client_id: id}}\nsources: {docs: {cli: {command: echo}}}")
	got := builtinTools(t, w.App, toolroom.Identity{})
	if slices.Contains(got, "docs:read") || !slices.Contains(got, "gmail:search") {
		t.Errorf("%v", got)
	}
}
