package run_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/source"
)

// promising is a tool whose values must have a name.
func promising(id string, kind toolroom.SourceKind, check toolroom.OutputCheck) toolroom.Tool {
	t := tool(id)
	t.Source, t.OutputCheck = kind, check
	t.OutputSchema = json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)
	return t
}

func TestAValueThatBreaksItsSchemaFailsOnlyToolsThatAreStrict(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for kind, want := range map[toolroom.SourceKind]toolroom.OutputCheck{
		toolroom.SourceGo: toolroom.OutputStrict, toolroom.SourcePython: toolroom.OutputStrict, toolroom.SourceJavaScript: toolroom.OutputStrict,
		toolroom.SourceWASM: toolroom.OutputStrict, toolroom.SourceBuiltin: toolroom.OutputStrict,
		toolroom.SourceHTTP: toolroom.OutputWarn, toolroom.SourceOpenAPI: toolroom.OutputWarn, toolroom.SourceMCP: toolroom.OutputWarn, toolroom.SourceCLI: toolroom.OutputWarn,
	} {
		for _, check := range []toolroom.OutputCheck{"", toolroom.OutputStrict, toolroom.OutputWarn, toolroom.OutputOff} {
			id := string(kind) + ":check" + string(check)
			b.add(promising(id, kind, check), value(`{"id":7}`))
			if check == "" {
				check = want
			}
			r := b.Run(t.Context(), toolroom.Call{Tool: id})
			kept := b.receipts.last()
			failed := toolroom.CodeOf(r.Err()) == toolroom.CodeInvalidOutput
			warned := len(r.Warnings) == 1 && r.Warnings[0].Code == toolroom.CodeInvalidOutput && strings.Contains(r.Warnings[0].Message, `"name"`)
			if string(r.Value) != `{"id":7}` || failed != (check == toolroom.OutputStrict) || warned != (check == toolroom.OutputWarn) {
				t.Errorf("%s, %s: %+v", id, check, r)
			}
			if r.Effects != toolroom.EffectsDone || len(kept.Warnings) != len(r.Warnings) || kept.Status != r.Status {
				t.Errorf("%s, %s: the receipt is %+v", id, check, kept)
			}
		}
	}
}

func TestAnOutputSchemaThatCannotBeUsedIsAWarningAfterTheCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	broken := promising("a:broken", toolroom.SourceOpenAPI, "")
	broken.OutputSchema = json.RawMessage(`{"type":"objekt"}`)
	b.funcs.Put(gofunc.Func{Tool: broken, Handler: value(`1`)})
	if err := b.Catalog.SetProvider("a", b.funcs, []toolroom.Tool{broken}); err != nil {
		t.Fatal(err)
	}
	if r := b.Run(t.Context(), toolroom.Call{Tool: "a:broken"}); !r.OK() || len(r.Warnings) != 1 || string(r.Value) != "1" {
		t.Errorf("got %+v", r)
	}
}

func TestAWarningIsShortAndHoldsNoSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) { o.Secrets = knowing("hunter2secret") })
	var members []string
	for range 50 {
		members = append(members, `{"name":"hunter2secret"}`)
	}
	x := tool("a:many")
	x.Source, x.OutputSchema = toolroom.SourceHTTP, json.RawMessage(`{"type":"array","items":{"properties":{"name":{"const":"x"}}}}`)
	b.add(x, value(`[`+strings.Join(members, ",")+`]`))
	r := b.Run(t.Context(), toolroom.Call{Tool: "a:many"})
	if !r.OK() || len(r.Warnings) != 1 || strings.Count(r.Warnings[0].Message, "/name") != 3 || !strings.HasSuffix(r.Warnings[0].Message, "; and 47 more") || strings.Contains(encode(t, r), "hunter2secret") {
		t.Errorf("got %s", encode(t, r))
	}
}

func TestAChainGoesOnWithAValueThatBreaksItsSchema(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(promising("a:first", toolroom.SourceOpenAPI, ""), value(`{"id":7}`))
	b.add(tool("a:second"), value(`2`))
	out := b.Chain(t.Context(), toolroom.Call{}, []toolroom.Step{{Tool: "a:first"}, {Tool: "a:second", Map: map[string]string{"n": "previous.id"}}})
	if out.Error != nil || string(out.Value) != "2" || len(out.Steps[0].Result.Warnings) != 1 {
		t.Errorf("got %+v", out)
	}
}

// JSON is UTF-8. A server that sends another encoding is read, with a warning: what its text
// said is lost where a byte is invalid.
func TestAnAnswerThatIsNotUTF8HasAWarning(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("a:latin"), func(context.Context, *source.Request) (*source.Output, error) {
		return &source.Output{Raw: json.RawMessage("{\"content\":[{\"type\":\"text\",\"text\":\"caf\xe9\"}]}"), Content: []toolroom.Content{toolroom.TextContent("caf\uFFFD")}}, nil
	})
	r := b.Run(t.Context(), toolroom.Call{Tool: "a:latin"})
	if !r.OK() || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0].Message, "not UTF-8") {
		t.Errorf("got %+v", r)
	}
}
