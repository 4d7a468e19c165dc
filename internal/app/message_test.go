package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
)

// The operator's address needs no entry in egress.allow, a person is asked with the
// recipient in view, and a key is in no result and no receipt.
func TestMessagesThroughThePipeline(t *testing.T) {
	t.Parallel()
	var bodies []string
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, r.Header.Get("Authorization")+" "+string(body))
		if r.Header.Get("Authorization") != "Bearer t0psecret" {
			http.Error(w, "not "+r.Header.Get("Authorization"), http.StatusUnauthorized)
		}
	}))
	t.Cleanup(hook.Close)
	w := newWorkshop(t, `
tools: {identities: {bob: {deny: ["message.*"]}, ann: {confirm: ["message.*"]}}}
builtin:
  message:
    channels:
      team: {provider: webhook, url: "`+hook.URL+`", key: "secret://hook/key", recipients: [team]}
`)
	args := map[string]any{"text": "hello"}
	key, err := secret.ParseRef("secret://hook/key")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	checks := func() string {
		for _, c := range w.Doctor(t.Context(), func(what string) { told = append(told, what) }) {
			if c.Name == "tools message" {
				return c.Detail + c.Fix
			}
		}
		return ""
	}
	if r := w.call("message:send", args); r.OK() || !strings.Contains(r.Error.Message+r.Error.Hint, "hook/key") || !strings.Contains(checks(), "hook/key") {
		t.Errorf("without the secret: %+v; doctor says %q", r.Error, checks())
	}
	if !slices.Contains(told, "the runtimes, by starting a sandbox of each kind") {
		t.Errorf("doctor tells of %v", told)
	}
	if err := w.Parts().Secrets.Set(t.Context(), key, "t0psecret"); err != nil {
		t.Fatal(err)
	}
	r := w.call("message:send", args)
	if !r.OK() || checks() != "send" {
		t.Fatalf("%+v; doctor says %q", r.Error, checks())
	}
	rec, err := w.Receipt(t.Context(), r.Call)
	if err != nil || !slices.ContainsFunc(rec.Expected, func(e toolroom.Effect) bool {
		return e.Kind == toolroom.EffectHost && e.Mode == "post" && e.Target == strings.TrimPrefix(hook.URL, "http://")
	}) {
		t.Errorf("the receipt expects %v, %v", rec.Expected, err)
	}
	if r := w.as("bob", "message:send", args); r.Status != toolroom.StatusDenied {
		t.Errorf("bob: %+v", r)
	}
	r = w.Run(t.Context(), toolroom.Call{Tool: "message:send", Arguments: toolroom.Args(args).JSON(), Identity: toolroom.Identity{Subject: "ann"}, NoWait: true})
	waiting, err := w.Approvals(t.Context(), "")
	if toolroom.CodeOf(r.Err()) != toolroom.CodeApprovalRequired || err != nil || len(waiting) != 1 || !slices.Contains(waiting[0].Effects, "sends 5 characters by team (webhook) to team") {
		t.Errorf("ann: %+v, %+v, %v", r.Error, waiting, err)
	}
	if want := []string{`Bearer t0psecret {"recipient":"team","text":"hello"}`}; !slices.Equal(bodies, want) {
		t.Errorf("the hook got %v", bodies)
	}
	if err := w.Parts().Secrets.Set(t.Context(), key, "wr0ngsecret"); err != nil {
		t.Fatal(err)
	}
	if r := w.call("message:send", args); r.OK() || strings.Contains(r.Error.Error(), "wr0ngsecret") {
		t.Errorf("an echoed key: %+v", r.Error)
	}
}
