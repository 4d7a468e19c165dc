package run_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

// A receipt that is larger than a line of an export may be makes every export with it
// unreadable, and a page of such receipts fills the memory of the server.
func TestACallerCannotMakeAReceiptLarge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("a:b"), value("1"))
	long := strings.Repeat("<", 1<<20)
	for name, call := range map[string]toolroom.Call{
		"a tool":                {Tool: long},
		"a tool of a namespace": {Tool: "a:" + long},
		"text that is no UTF-8": {Tool: strings.Repeat("é", 1<<20)[1:]},
		"a session":             {Tool: "a:b", Session: long},
		"an agent":              {Tool: "a:b", Identity: toolroom.Identity{Agent: long}},
		"a provider":            {Tool: "a:b", Identity: toolroom.Identity{Provider: long}},
		"a skill":               {Tool: "a:b", Identity: toolroom.Identity{Skill: long}},
		"a key":                 {Tool: "a:b", IdempotencyKey: long},
		"a session and a key":   {Tool: "a:b", Session: long, IdempotencyKey: long},
	} {
		call.Identity.Subject = "ann"
		result := b.Run(t.Context(), call)
		if result.Error == nil {
			t.Errorf("%s: the call succeeded", name)
		}
		if text, err := json.Marshal(result); err != nil || len(text) > 8<<10 {
			t.Errorf("%s: the result has %d bytes, %v", name, len(text), err)
		}
		b.receipts.mu.Lock()
		last := b.receipts.list[len(b.receipts.list)-1]
		b.receipts.mu.Unlock()
		if text, err := json.Marshal(last.Receipt); err != nil || len(text) > 8<<10 {
			t.Errorf("%s: the receipt has %d bytes, %v", name, len(text), err)
		}
	}
}
