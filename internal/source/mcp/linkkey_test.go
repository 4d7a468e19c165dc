package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/source/mcp"
	"github.com/toolroom/toolroom/source"
)

// able is a client that can be asked in some ways, and is not asked.
type able struct {
	source.NoAsker
	methods []string
}

func (a able) Can(method string) bool { return slices.Contains(a.methods, method) }

func (a able) Ask(context.Context, map[string]source.Question) (map[string]json.RawMessage, error) {
	return nil, source.Unanswerable("anything")
}

// host is a client that can be asked in all ways and shows pages.
type host struct{ source.NoAsker }

func (host) Can(method string) bool { return method != source.MethodRoots }

func (host) Capabilities() json.RawMessage { return json.RawMessage(everything) }

const everything = `{"elicitation":{"url":{"x":1},"form":{}},"experimental":{"e":{}},"sampling":{},"extensions":{"acme/x":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"],"odd":1.50}}}`

// agent is a client without pages that asks its user at an address, and whose
// model can use tools.
type agent struct{ host }

func (agent) Capabilities() json.RawMessage {
	return json.RawMessage(`{"elicitation":{"url":{}},"sampling":{"tools":{"n":9007199254740993}},"extensions":{}}`)
}

func TestAnOlderServerOverHTTPHearsWhatEachClientCanDo(t *testing.T) {
	t.Parallel()
	const every = `{"elicitation":{"form":{},"url":{}},"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`
	for era, want := range map[string][]string{
		"legacy": {
			every, // the list
			`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
			`{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
			`{"elicitation":{"url":{}},"sampling":{"tools":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
		},
		"modern": nil, // it hears it with each call
	} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, eras[era])
			s := r.source(t)
			if _, err := s.Tools(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				for _, a := range []source.Asker{nil, able{methods: []string{source.MethodElicit}}, host{}, agent{}, able{methods: []string{source.MethodRoots}}} {
					_, err := s.Call(t.Context(), &source.Request{Tool: toolroom.ID{Namespace: "odd", Name: "odd"}, Emit: func(toolroom.Event) {}, Ask: a})
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			if diff := cmp.Diff(want, r.told()); diff != "" {
				t.Errorf("the sessions (-want +got)\n%s", diff)
			}
		})
	}
}

func TestAModernServerHearsWithEachCallWhatItsClientSays(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	s := r.source(t)
	for want, a := range map[string]source.Asker{
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`:                                      nil,
		`{"elicitation":{"form":{}},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`: able{methods: []string{source.MethodElicit, source.MethodRoots}},
		`{"elicitation":{"url":{"x":1},"form":{}},"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"],"odd":1.50}}}`: host{},
		`{"elicitation":{"url":{}},"sampling":{"tools":{"n":9007199254740993}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`:                                                                      agent{},
	} {
		_, err := s.Call(t.Context(), &source.Request{Tool: toolroom.ID{Namespace: "odd", Name: "odd"}, Emit: func(toolroom.Event) {}, Ask: a})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(r.body, `"io.modelcontextprotocol/clientCapabilities":`+want+`,`) {
			t.Errorf("the server did not hear\n%s\nbut\n%s", want, r.body)
		}
	}
}

// TestEachIdentityCompletesOnItsOwnConnection: what a user types goes out with the
// login of that user.
func TestEachIdentityCompletesOnItsOwnConnection(t *testing.T) {
	t.Parallel()
	r := newRemote(t, false)
	r.offers.Store(`{"tools":{},"completions":{}}`)
	var mu sync.Mutex
	var logins []string
	s := mcp.New(mcp.Config{
		Namespace: "odd", URL: r.URL + "/mcp",
		Auth: func(who string) *oauth.Client {
			mu.Lock()
			defer mu.Unlock()
			logins = append(logins, who)
			return oauth.New(oauth.Config{Resource: r.URL + "/mcp"}, &loginStore{}, nil)
		},
	})
	defer s.Close()
	for i := range 6 {
		who := toolroom.Identity{Subject: fmt.Sprint("user", i%3)}
		if _, err := s.Complete(t.Context(), source.Completion{Prompt: "p", Argument: "a", Identity: who}); err != nil {
			t.Fatal(err)
		}
	}
	// A narrowed caller uses no login of its wider self.
	narrow := toolroom.Identity{Subject: "user0", Agent: "it's fast"}
	if _, err := s.Complete(t.Context(), source.Completion{Prompt: "p", Argument: "a", Identity: narrow}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"user0", "user1", "user2", identity.Owner(narrow)}, logins); diff != "" || r.starts.Load() != 4 {
		t.Errorf("%d sessions, with the logins (-want +got)\n%s", r.starts.Load(), diff)
	}
}
