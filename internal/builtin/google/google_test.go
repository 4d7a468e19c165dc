package google_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/google"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/source"
	"github.com/toolroom/toolroom/test/double"
)

// pack returns the tools for callers whose name is their token.
func pack(t *testing.T, services ...string) *builtin.Pack {
	t.Helper()
	s := httptest.NewServer(double.Google())
	t.Cleanup(s.Close)
	return google.Pack(google.Options{
		Services: services, URL: s.URL, Transport: http.DefaultTransport, Configured: true,
		Token: func(_ context.Context, who toolroom.Identity) (string, error) {
			if who.Subject == "nobody" {
				return "", &oauth.Needed{Reason: "nobody has logged in"}
			}
			return who.Subject, nil
		},
	})
}

func call(t *testing.T, p *builtin.Pack, who, tool, arguments string) (string, error) {
	t.Helper()
	out, err := p.Source().Call(t.Context(), &source.Request{Tool: toolroom.MustParseID(tool), Arguments: []byte(arguments), Identity: toolroom.Identity{Subject: who}, Emit: func(toolroom.Event) {}})
	if err != nil {
		return "", err
	}
	return out.Content[0].Text, nil
}

func TestTheToolsReadWhatTheAPIsAnswer(t *testing.T) {
	t.Parallel()
	p := pack(t)
	for _, tt := range []struct{ tool, arguments, want string }{
		{"gmail:search", `{"query":"from:ann","limit":5}`, "m1  2026-11-23T10:00:00Z  Ann <ann@example.com>  Invoice\n    Please pay\n"},
		{"gmail:search", `{"query":"none"}`, "There is no such mail."},
		{"gmail:read", `{"id":"m1"}`, "From: Ann <ann@example.com>\nTo: bob@example.com\nSubject: Invoice\nDate: 2026-11-23T10:00:00Z\n\nPlease pay 5 €.\n[invoice.pdf, application/pdf, 1234 bytes]"},
		{"calendar:list", `{}`, "bob@example.com  Bob\n"},
		{"calendar:events", `{"from":"2026-12-01","to":"2026-12-02"}`, "2026-12-01T09:00:00+01:00  2026-12-01T09:15:00+01:00  Stand-up  Ulm\n"},
		{"calendar:events", `{}`, "2026-12-01T09:00:00+01:00  2026-12-01T09:15:00+01:00  Stand-up  Ulm\n"},
		{"docs:read", `{"id":"d1"}`, "# Plan\n\n## Goals\nBe done.\n- a point\n| a | b |"},
		{"drive:search", `{"query":"Ann's budget"}`, "f1  2026-11-01T00:00:00Z  Budget  application/vnd.google-apps.spreadsheet\n"},
		{"drive:search", `{"folder":"x1"}`, "f1  2026-11-01T00:00:00Z  Budget  application/vnd.google-apps.spreadsheet\n"},
		{"drive:read", `{"id":"f1"}`, "a,b\n1,2\n"},
		{"drive:read", `{"id":"f2"}`, "text of a file"},
		{"tasks:lists", `{}`, "l1  Home\n"},
		{"tasks:list", `{"completed":true}`, "k1  2026-12-01T00:00:00.000Z  needsAction  Buy milk\n"},
		{"tasks:get", `{"id":"k1","list":"l1"}`, "Buy milk  2026-12-01T00:00:00.000Z  needsAction\n2 l"},
	} {
		if got, err := call(t, p, "good", tt.tool, tt.arguments); err != nil || got != tt.want {
			t.Errorf("%s %s: %q, %v, want %q", tt.tool, tt.arguments, got, err, tt.want)
		}
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	t.Parallel()
	p := pack(t)
	for _, tt := range []struct {
		who, tool, arguments string
		code                 toolroom.Code
		want                 string
	}{
		{"nobody", "tasks:list", `{}`, toolroom.CodeUnauthenticated, "toolroom sources login google --as nobody"},
		{"expired", "tasks:list", `{}`, toolroom.CodeUnauthenticated, "toolroom sources login google --as expired"},
		{"unlisted", "gmail:search", `{}`, toolroom.CodeDenied, "enable the API of gmail"},
		{"narrow", "drive:search", `{}`, toolroom.CodeDenied, "permission for drive"},
		{"good", "gmail:read", `{"id":"m2"}`, toolroom.CodeNotFound, ""},
		{"good", "drive:read", `{"id":"f3"}`, toolroom.CodeUnsupported, ""},
		{"good", "drive:read", `{"id":"f4"}`, toolroom.CodeUnsupported, ""},
		{"good", "calendar:events", `{"from":"tomorrow"}`, toolroom.CodeInvalidArguments, "2026-12-01"},
	} {
		_, err := call(t, p, tt.who, tt.tool, tt.arguments)
		var known *toolroom.Error
		if !errors.As(err, &known) || known.Code != tt.code || !strings.Contains(known.Hint, tt.want) {
			t.Errorf("%s %s: %v", tt.who, tt.tool, err)
		}
	}
}

func TestOnlyTheNamedServicesAreOffered(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, tool := range pack(t, "tasks", "docs").List() {
		ids = append(ids, tool.ID.String())
	}
	if got := strings.Join(ids, " "); got != "docs:read tasks:lists tasks:list tasks:get" {
		t.Error(got)
	}
	if scopes := (google.Options{Services: []string{"docs"}}).Scopes(); len(scopes) != 1 || !strings.HasSuffix(scopes[0], "documents.readonly") {
		t.Error(scopes)
	}
}
