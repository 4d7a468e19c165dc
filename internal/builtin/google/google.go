// Package google provides the built-in tools that read a person's mail, calendars, documents,
// files and tasks at Google. They use the REST APIs with read-only permissions.
package google

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/oauth"
)

// Services are the namespaces of the tools, with the OAuth scope and the address of each.
var Services = []struct{ Name, Scope, URL string }{
	{"gmail", "https://www.googleapis.com/auth/gmail.readonly", "https://gmail.googleapis.com"},
	{"calendar", "https://www.googleapis.com/auth/calendar.readonly", "https://www.googleapis.com"},
	{"docs", "https://www.googleapis.com/auth/documents.readonly", "https://docs.googleapis.com"},
	{"drive", "https://www.googleapis.com/auth/drive.readonly", "https://www.googleapis.com"},
	{"tasks", "https://www.googleapis.com/auth/tasks.readonly", "https://tasks.googleapis.com"},
}

// Options configure the pack.
type Options struct {
	// Services are the services to offer; empty means all.
	Services []string
	// URL is the address of all APIs, in place of Google's.
	URL       string
	Transport http.RoundTripper
	// Token returns the access token of a caller's login; the error is an [oauth.Needed]
	// if there is none.
	Token func(ctx context.Context, who toolroom.Identity) (string, error)
	// Configured reports whether the config names a client.
	Configured bool
}

// Has reports whether the options include a service.
func (o Options) Has(service string) bool {
	return len(o.Services) == 0 || slices.Contains(o.Services, service)
}

// Scopes returns the OAuth scopes that the services need.
func (o Options) Scopes() []string {
	var scopes []string
	for _, s := range Services {
		if o.Has(s.Name) {
			scopes = append(scopes, s.Scope)
		}
	}
	return scopes
}

// Pack returns the tools.
func Pack(o Options) *builtin.Pack {
	g := &google{o}
	p := &builtin.Pack{Name: "google"}
	for _, t := range []builtin.Tool{
		g.mailSearch(), g.mailRead(), g.calendars(), g.events(), g.docRead(), g.driveSearch(), g.driveRead(), g.taskLists(), g.taskList(), g.taskGet(),
	} {
		if o.Has(t.ID.Namespace) {
			p.Tools = append(p.Tools, t)
		}
	}
	if !o.Configured {
		p.Missing = toolroom.Errorf(toolroom.CodeUnsupported, "no OAuth client for Google is configured").
			WithHint(`make one of the kind "Desktop app" in Google's console, enable the APIs, and name it in toolroom.yaml: builtin: {google: {client_id: ID, client_secret: "secret://google/client"}}`)
	}
	return p
}

type google struct{ Options }

// address returns the address of a service.
func (g *google) address(service string) string {
	if g.URL != "" {
		return strings.TrimSuffix(g.URL, "/")
	}
	for _, s := range Services {
		if s.Name == service {
			return s.URL
		}
	}
	return ""
}

const (
	maxAnswer = 16 << 20
	maxFile   = 20 << 20
)

// get sends a request to a service and decodes the JSON response.
func (g *google) get(ctx context.Context, who toolroom.Identity, service, path string, query url.Values, to any) error {
	data, _, err := g.bytes(ctx, who, service, path, query, maxAnswer)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return toolroom.Errorf(toolroom.CodeUpstreamError, "Google's answer is not JSON: %w", err)
	}
	return nil
}

// bytes sends a request to a service and returns the response, of at most the given number of
// bytes, and its type.
func (g *google) bytes(ctx context.Context, who toolroom.Identity, service, path string, query url.Values, most int64) ([]byte, string, error) {
	token, err := g.Token(ctx, who)
	if err != nil {
		return nil, "", loginError(err, who)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.address(service)+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: g.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		if _, known := errors.AsType[*toolroom.Error](err); known || ctx.Err() != nil {
			return nil, "", err
		}
		e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "Google cannot be reached: %w", err)
		e.Retryable = true
		return nil, "", e
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	switch {
	case err != nil:
		return nil, "", toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "Google's answer broke off: %w", err)
	case response.StatusCode != http.StatusOK:
		return nil, "", responseError(response.StatusCode, data, who, service)
	case int64(len(data)) > most:
		return nil, "", toolroom.Errorf(toolroom.CodeResourceLimit, "the answer is larger than %d bytes", most)
	}
	return data, response.Header.Get("Content-Type"), nil
}

// loginError converts an [oauth.Needed] to the error of a call that needs a person to log in.
func loginError(err error, who toolroom.Identity) error {
	var needed *oauth.Needed
	if !errors.As(err, &needed) {
		return err
	}
	e := toolroom.Errorf(toolroom.CodeUnauthenticated, "Google %w", needed)
	return e.WithHint("a person logs in with: toolroom sources login google%s", asFlag(who))
}

// asFlag returns the flag --as with which a person logs in for a caller.
func asFlag(who toolroom.Identity) string {
	if who.Key() == (toolroom.Identity{}).Key() {
		return ""
	}
	if text, err := json.Marshal(who); err == nil && (who.Agent != "" || who.Provider != "" || who.Skill != "" || who.Set != "" || who.Environment != "" || len(who.Groups) > 0 || who.Scopes != nil) {
		return " --as '" + string(text) + "'"
	}
	return " --as " + who.Key()
}

// responseError returns the error for a failed request to Google.
func responseError(status int, data []byte, who toolroom.Identity, service string) error {
	var told struct {
		Error struct {
			Message string
			Status  string
			Errors  []struct{ Reason string }
		}
	}
	if json.Unmarshal(data, &told) != nil || told.Error.Message == "" {
		told.Error.Message = http.StatusText(status)
	}
	e := toolroom.Errorf(toolroom.CodeUpstreamError, "Google answered %d: %.300s", status, told.Error.Message)
	reason := told.Error.Status
	if len(told.Error.Errors) > 0 {
		reason += " " + told.Error.Errors[0].Reason
	}
	switch {
	case status == http.StatusUnauthorized:
		e.Code = toolroom.CodeUnauthenticated
		return e.WithHint("a person logs in again with: toolroom sources login google%s", asFlag(who))
	case status == http.StatusTooManyRequests, strings.Contains(strings.ToLower(reason), "ratelimit"):
		e.Code, e.Retryable = toolroom.CodeRateLimited, true
	case status == http.StatusForbidden && (strings.Contains(reason, "accessNotConfigured") || strings.Contains(told.Error.Message, "has not been used in project")):
		e.Code = toolroom.CodeDenied
		return e.WithHint("enable the API of %s for the project of the OAuth client, in Google's console", service)
	case status == http.StatusForbidden:
		e.Code = toolroom.CodeDenied
		return e.WithHint("the login may lack the permission for %s: a person logs in again with: toolroom sources login google%s", service, asFlag(who))
	case status == http.StatusNotFound:
		e.Code = toolroom.CodeNotFound
	case status == http.StatusBadRequest:
		e.Code = toolroom.CodeInvalidArguments
	case status >= 500:
		e.Code, e.Retryable = toolroom.CodeUpstreamUnavailable, true
	}
	return e
}

// readEffects returns the predicted effect of a call of a service.
func (g *google) readEffects(service string) []toolroom.Effect {
	return []toolroom.Effect{{Kind: toolroom.EffectHost, Mode: "get", Target: g.address(service)}}
}

func definition(id, title, description string, example map[string]any) toolroom.Tool {
	return builtin.Define(id, "google", title, description, builtin.Hints(true, false, true), example)
}

// limitProperty returns the schema of an argument that limits a list.
func limitProperty(most, fallback int) builtin.Property {
	return builtin.Property{"minimum": 1, "maximum": most, "default": fallback}
}

// nameProperty is the schema of an argument that is an object's id.
var nameProperty = builtin.Property{"pattern": `^[A-Za-z0-9@._=+-]{1,256}$`}

// quoteQuery quotes a text for a query of Drive.
func quoteQuery(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

// joinNonEmpty joins the parts that are not empty.
func joinNonEmpty(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "  ") + "\n"
}

func itoa(n int) string { return fmt.Sprint(n) }
