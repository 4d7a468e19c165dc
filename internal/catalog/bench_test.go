package catalog

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

// BenchmarkSearch is what a client waits for: ranking, policy, and a ready call
// for each hit.
func BenchmarkSearch(b *testing.B) {
	c := New(Options{})
	verbs, nouns := []string{"create", "list", "delete", "update", "find"}, []string{"issue", "invoice", "customer", "page", "ticket"}
	for i := range 5000 {
		verb, noun := verbs[i%5], nouns[i/5%5]
		err := c.Register("p", nil, toolroom.Tool{
			ID:          toolroom.ID{Namespace: fmt.Sprintf("n%d", i%50), Name: fmt.Sprintf("%s_%s_%d", verb, noun, i)},
			Description: "Lets you " + verb + " one " + noun,
			InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`),
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	layers, err := policy.Compile(policy.Config{Rules: policy.Rules{Deny: []string{"n7.*", "*:delete_*"}}})
	if err != nil {
		b.Fatal(err)
	}
	visible := func(e *Entry) bool {
		return layers.Decide(b.Context(), policy.Request{Tool: &e.Tool}).Effect != toolroom.VerdictDeny
	}
	b.ReportAllocs()
	for b.Loop() {
		if found := c.Search("find the invoice of a customer", SearchOptions{View: View{Visible: visible}}); len(found.Hits) == 0 {
			b.Fatal(found.Hint)
		}
	}
}
