package oauth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/oauth"
)

// company is an identity provider that exchanges ID tokens.
type company struct {
	*httptest.Server
	issuer, kind string
	asked        []url.Values
}

func newCompany(t *testing.T) *company {
	c := &company{kind: "urn:ietf:params:oauth:token-type:id-jag"}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/") {
			json.NewEncoder(w).Encode(map[string]any{"issuer": c.issuer, "token_endpoint": c.URL + "/token"})
			return
		}
		r.ParseForm()
		c.asked = append(c.asked, r.PostForm)
		json.NewEncoder(w).Encode(map[string]any{"access_token": fmt.Sprint("jag-", len(c.asked)), "token_type": "N_A", "issued_token_type": c.kind, "expires_in": 1e300})
	}))
	t.Cleanup(c.Close)
	c.issuer = c.URL
	return c
}

func TestTheEnterpriseGrantGivesNothingToWhomItIsNotFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		attack  func(*world, *company)
		refused string // part of the error; empty if the grant works
		asked   int    // how often the identity provider gets the ID token
	}{
		{"honest", func(*world, *company) {}, "", 2},
		{"the provider's metadata are of another issuer", func(_ *world, c *company) { c.issuer = "https://evil.example" }, "is of the issuer", 0},
		{"the provider issues a token of its own", func(_ *world, c *company) { c.kind = "urn:ietf:params:oauth:token-type:access_token" }, "issued a token of type", 1},
		{"the provider does not say what it issues", func(_ *world, c *company) { c.kind = "" }, "issued a token of type", 1},
		{"the resource is another's", func(w *world, _ *company) { w.names = map[string]any{"resource": "https://other.example/mcp"} }, "is of", 0},
		{"the resource is another's of the same host", func(w *world, _ *company) { w.names = map[string]any{"resource": w.URL + "/mcp2"} }, "is of", 0},
		{"the provider is named as the authorization server", func(w *world, c *company) { w.names = map[string]any{"authorization_servers": []string{c.URL}} }, "of the issuer", 0},
		{"the authorization server is the attacker's", func(w *world, _ *company) {
			w.names = map[string]any{"authorization_servers": []string{w.URL + "/evil"}}
		}, "issuer", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, c := newWorld(t), newCompany(t)
			tt.attack(w, c)
			client := oauth.New(oauth.Config{
				Resource: w.URL + "/mcp", Grant: oauth.Enterprise, Issuer: w.URL, ClientID: "toolroom", IDP: oauth.IDP{Issuer: c.URL, ClientID: "toolroom"},
				Assertion: func(context.Context) (string, error) { return "ID-TOKEN", nil },
			}, &store{}, w.Client())
			_, err := w.post(t, client, "")
			if tt.refused == "" && err == nil {
				w.drop() // the next token needs a new assertion: this server takes each once
				_, err = w.post(t, client, "")
			}
			if tt.refused == "" && err != nil || tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)) {
				t.Errorf("got %v, want %q", err, tt.refused)
			}
			if len(c.asked) != tt.asked {
				t.Errorf("the provider was asked %d times, want %d", len(c.asked), tt.asked)
			}
			for _, form := range c.asked {
				if form.Get("audience") != w.URL || form.Get("resource") != w.URL+"/mcp" || form.Get("subject_token") != "ID-TOKEN" {
					t.Errorf("asked for with %v", form)
				}
			}
			for _, form := range w.tokenRequests {
				if tt.refused != "" || strings.Contains(form.Encode(), "ID-TOKEN") || form.Get("resource") != w.URL+"/mcp" || !strings.HasPrefix(form.Get("assertion"), "jag-") {
					t.Errorf("the authorization server got %v", form)
				}
			}
		})
	}
}
