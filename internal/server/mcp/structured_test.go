package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/source"
)

const promised = `{"type":"object","properties":{"name":{"type":"string"},"list":{"type":"array","items":{"type":"integer"}}},"required":["name"]}`

// promise adds a tool with an output schema.
func (f *fixture) promise(name string, kind toolroom.SourceKind, task toolroom.TaskSupport, out source.Output) {
	f.t.Helper()
	tool := toolroom.Tool{
		ID: toolroom.ID{Namespace: "promise", Name: name}, Source: kind, Task: task, OutputSchema: json.RawMessage(promised),
	}
	f.funcs.Put(gofunc.Func{Tool: tool, Handler: func(context.Context, *source.Request) (*source.Output, error) { return &out, nil }})
	if err := f.runner.Catalog.Register("go", f.funcs, tool); err != nil {
		f.t.Fatal(err)
	}
}

// addPromises adds tools whose answers SDKs would refuse if they came as their
// tools gave them.
func (f *fixture) addPromises(task toolroom.TaskSupport) []string {
	raw := json.RawMessage(`{"content":[{"type":"text","text":"hello"}],"structuredContent":{"id":7}}`)
	for name, out := range map[string]source.Output{
		"fits":     {Value: json.RawMessage(`{"name":"ada"}`)},
		"misfits":  {Value: json.RawMessage(`{"id":7}`)},
		"text":     {Content: []toolroom.Content{toolroom.TextContent("just a text")}},
		"relayed":  {Value: json.RawMessage(`{"id":7}`), Content: []toolroom.Content{toolroom.TextContent("hello")}, Raw: raw},
		"fails":    {Failed: true, Value: json.RawMessage(`{"reason":"no luck"}`), Content: []toolroom.Content{toolroom.TextContent("it failed")}},
		"failsraw": {Failed: true, Content: []toolroom.Content{toolroom.TextContent("hello")}, Raw: append(raw[:len(raw)-1:len(raw)-1], `,"isError":true}`...)},
		"long":     {Value: json.RawMessage(`{"name":"ada","list":[` + strings.Repeat("1,", 60_000) + `1]}`)},
	} {
		f.promise(name+"_strict", toolroom.SourceGo, task, out)
		f.promise(name+"_warn", toolroom.SourceOpenAPI, task, out)
	}
	return []string{"fits", "misfits", "text", "relayed", "fails", "failsraw", "long"}
}

// takes checks an answer as the SDKs of clients do, which throw it away otherwise.
func takes(t *testing.T, what string, told, answer map[string]any) {
	t.Helper()
	structured, there := answer["structuredContent"]
	if answer["isError"] == true {
		if there {
			t.Errorf("%s: structured content %v beside an error", what, structured)
		}
		return
	}
	if told == nil {
		return
	}
	text, err := jsonx.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := schema.Compile(text, schema.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonx.Marshal(structured)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonx.Decode(value, jsonx.Limits{})
	if err != nil || !there || compiled.Validate(document) != nil {
		t.Errorf("%s: %v does not fit %s", what, structured, text)
	}
}

func object(t *testing.T, v any) map[string]any {
	t.Helper()
	text, err := jsonx.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestClientsGetEveryAnswerInAFormThatTheirSDKsTake(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		all := f.addPromises("")
		s := f.connect(version, nil)
		list, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		told := map[string]map[string]any{}
		for _, tool := range list.Tools {
			if tool.OutputSchema != nil {
				told[tool.Name] = object(t, tool.OutputSchema)
			}
		}
		for _, name := range all {
			for _, kind := range []string{"_strict", "_warn"} {
				name := "promise__" + name + kind
				if (told[name] != nil) != (kind == "_strict") {
					t.Errorf("%s is listed with the output schema %v", name, told[name])
				}
				answer, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				takes(t, name, told[name], object(t, answer))
			}
		}
		// What has run is no failure, and a model reads what is wrong with it.
		for _, name := range []string{"misfits", "relayed", "text"} {
			answer, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "promise__" + name + "_warn"})
			if err != nil {
				t.Fatal(err)
			}
			text := string(must(t, object(t, answer)["content"]))
			meta := string(must(t, answer.Meta))
			if answer.IsError || !strings.Contains(text, "does not fit its output schema") || !strings.Contains(meta, `"warnings":[{"code":"invalid_output"`) {
				t.Errorf("%s: %s, %s", name, text, meta)
			}
			if name != "text" && !strings.Contains(string(must(t, answer.StructuredContent)), `"id":7`) {
				t.Errorf("%s lost its value: %v", name, answer.StructuredContent)
			}
		}
		// An error says all that its tool has said.
		for _, name := range []string{"fails_strict", "fails_warn"} {
			answer, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "promise__" + name})
			if err != nil || !answer.IsError || !strings.Contains(string(must(t, answer.Content)), "no luck") {
				t.Errorf("%s: %+v, %v", name, answer, err)
			}
		}
	})
}

func TestAFailureSaysTheOutputOfItsProgramOnce(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	f.promise("program", toolroom.SourceCLI, "", source.Output{
		Failed:  true,
		Value:   json.RawMessage(`{"stdout":"all of the output\n","stderr":"no such object","exit_code":2,"cwd":"/elsewhere/in/the/tree"}`),
		Content: []toolroom.Content{toolroom.TextContent("exit status 2: no such object\n\nall of the output")},
	})
	answer, err := f.connect("2025-06-18", nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "promise__program"})
	if err != nil {
		t.Fatal(err)
	}
	content := string(must(t, answer.Content))
	if rest, ok := answer.Content[len(answer.Content)-1].(*mcp.TextContent); !ok || rest.Text != `{"exit_code":2,"cwd":"/elsewhere/in/the/tree"}` {
		t.Errorf("what the output does not say: %s", content)
	}
	for _, once := range []string{"all of the output", "no such object", "exit_code", "/elsewhere/in/the/tree"} {
		if n := strings.Count(content, once); n != 1 {
			t.Errorf("%q is there %d times: %s", once, n, content)
		}
	}
}

func TestAFailureWithoutATextSaysItsValueOnce(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	f.promise("program", toolroom.SourceCLI, "", source.Output{Failed: true, Value: json.RawMessage(`{"reason":"no luck at all today","id":7}`)})
	answer, err := f.connect("2025-06-18", nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "promise__program"})
	if err != nil {
		t.Fatal(err)
	}
	if content := string(must(t, answer.Content)); strings.Count(content, "reason") != 1 || strings.Count(content, "id") != 1 {
		t.Errorf("%s", content)
	}
}

func must(t *testing.T, v any) []byte {
	t.Helper()
	text, err := jsonx.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestATaskEndsWithAnAnswerThatSDKsTake(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	told := object(t, json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"list":{"type":"array"}}}`))
	for _, name := range f.addPromises(toolroom.TaskOptional) {
		for kind, told := range map[string]map[string]any{"_strict": told, "_warn": nil} {
			id := f.callTask(t, "ada", "promise__"+name+kind)
			answer, _ := f.until(t, id, "completed")["result"].(map[string]any)
			takes(t, name+kind, told, answer)
			if warned := strings.Contains(string(must(t, answer["_meta"])), `"warnings"`); warned != (kind == "_warn" && (name == "misfits" || name == "text" || name == "relayed")) {
				t.Errorf("%s%s: %v", name, kind, answer)
			}
		}
	}
}
