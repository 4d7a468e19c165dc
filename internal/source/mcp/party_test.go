package mcpsource_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// able is a client that can be asked in some ways, and is not asked.
type able []string

func (a able) Can(method string) bool { return slices.Contains(a, method) }

func (a able) Ask(context.Context, map[string]source.Question) (map[string]json.RawMessage, error) {
	return nil, source.Unanswerable("anything")
}

func TestAnOlderServerOverHTTPHearsWhatEachClientCanDo(t *testing.T) {
	t.Parallel()
	const every = `{"elicitation":{"form":{},"url":{}},"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`
	for era, want := range map[string][]string{
		"legacy": {
			every, // the list
			`{"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`,
			`{"elicitation":{"form":{},"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`,
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
				for _, a := range []source.Asker{nil, able{source.MethodElicit}, able{source.MethodElicit, source.MethodSample, source.MethodRoots}, able{source.MethodRoots}} {
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
