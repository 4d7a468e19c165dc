package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/release"
)

// TestAVersionCanBeNamedWhereverAnIDIsAccepted gives each place fn:speak@2, which prod does
// not serve, and the versions that no caller can have.
func TestAVersionCanBeNamedWhereverAnIDIsAccepted(t *testing.T) {
	t.Parallel()
	w := newStagedWorkshop(t)
	w.serve("asks.py", "def asks(tool: str, context) -> str:\n    return context.call_tool(tool, {})\n")
	w.serve("asks_js.ts", "import type { Context } from 'toolroom';\nexport async function asks_js(tool: string, context: Context): Promise<string> { return await context.callTool(tool, {}) }\n")
	w.serve("asks_sh.sh", "#!/bin/sh\n# toolroom:\n#   parameters: {tool: {type: string}}\n#   output: text\nexec tool \"$ARG_TOOL\"\n")
	server := w.listen()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := &author{t: t, folder: t.TempDir(), binary: ""}
	a.binary = filepath.Join(a.folder, "toolroom")
	if err := errors.Join(os.Symlink(self, a.binary), os.Symlink(w.Home(), filepath.Join(a.folder, "home"))); err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, body string, id string) string {
		_, text, _ := server.request(method, path, strings.ReplaceAll(body, "ID", id))
		return text
	}
	textOf := func(r *toolroom.Result) string {
		text, err := json.Marshal(r)
		return fmt.Sprint(string(text), err)
	}
	program := func(language, code string) func(string) string {
		return func(id string) string {
			arguments, err := json.Marshal(map[string]string{"language": language, "code": strings.ReplaceAll(code, "ID", id)})
			if err != nil {
				t.Fatal(err)
			}
			return textOf(w.call("code:execute", string(arguments)))
		}
	}
	typed := func(words ...string) func(string) string {
		return func(id string) string {
			args := make([]string, len(words))
			for i, word := range words {
				args[i] = strings.ReplaceAll(word, "ID", id)
			}
			out, _ := a.try(args...)
			return out
		}
	}
	places := map[string]func(id string) string{
		"Go: Run": func(id string) string { return textOf(w.call(id, `{}`)) },
		"Go: Stream": func(id string) string {
			text := ""
			for e := range w.Stream(t.Context(), toolroom.Call{Tool: id}) {
				text += fmt.Sprint(e.Result != nil && strings.Contains(textOf(e.Result), "woof"), e.Result)
				if e.Result != nil {
					text += textOf(e.Result)
				}
			}
			return text
		},
		"Go: Batch": func(id string) string {
			return textOf(w.Batch(t.Context(), []toolroom.Call{{Tool: id}}, 1)[0])
		},
		"Go: Chain": func(id string) string {
			return textOf(w.Chain(t.Context(), toolroom.Call{}, []toolroom.Step{{Tool: id}}).Steps[0].Result)
		},
		"Go: Describe": func(id string) string {
			d, err := w.Describe(t.Context(), toolroom.Identity{}, id, "", "")
			return fmt.Sprintf("%+v %v", d, err)
		},
		"HTTP: call":         func(id string) string { return ask("POST", "/api/v1/call", `{"tool":"ID"}`, id) },
		"HTTP: call by path": func(id string) string { return ask("POST", "/api/v1/tools/"+id+"/call", `{}`, id) },
		"HTTP: describe":     func(id string) string { return ask("GET", "/api/v1/tools/"+id, "", id) },
		"HTTP: batch":        func(id string) string { return ask("POST", "/api/v1/batch", `{"calls":[{"tool":"ID"}]}`, id) },
		"HTTP: chain":        func(id string) string { return ask("POST", "/api/v1/chain", `{"steps":[{"tool":"ID"}]}`, id) },
		"MCP: call by name": func(id string) string {
			return server.mcp(`"method":"tools/call","params":{"name":"` + id + `","arguments":{}}`)
		},
		"MCP: call_tool": func(id string) string {
			return server.mcp(`"method":"tools/call","params":{"name":"call_tool","arguments":{"tool":"` + id + `"}}`)
		},
		"MCP: describe_tools": func(id string) string {
			return server.mcp(`"method":"tools/call","params":{"name":"describe_tools","arguments":{"tools":["` + id + `"]}}`)
		},
		"program: python":         program("python", "return await call_tool('ID', {})"),
		"program: javascript":     program("javascript", "return await call_tool('ID', {})"),
		"program: shell":          program("shell", "tool ID"),
		"program: describes":      program("javascript", "return await describe_tool('ID')"),
		"program: describes (py)": program("python", "return await describe_tool('ID')"),
		"program: chain":          program("javascript", "return await run_chain([{tool: 'ID'}])"),
		"a function in Python":    func(id string) string { return textOf(w.call("fn:asks", `{"tool":"`+id+`"}`)) },
		"a function in JS":        func(id string) string { return textOf(w.call("fn:asks_js", `{"tool":"`+id+`"}`)) },
		"a script":                func(id string) string { return textOf(w.call("fn:asks_sh", `{"tool":"`+id+`"}`)) },
		"CLI: call":               typed("call", "ID"),
		"CLI: chain":              typed("chain", "ID"),
		"CLI: describe":           typed("describe", "ID", "--json"),
		"CLI: exec":               typed("exec", "-l", "js", "return await call_tool('ID', {})"),
		"schedule": func(id string) string {
			r := w.call("cron:create", `{"tool":"`+id+`","schedule":"0 0 1 1 *","name":"yearly"}`)
			if r.Error != nil {
				return textOf(r)
			}
			var made struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(r.Value, &made); err != nil {
				return textOf(r)
			}
			ran := w.call("cron:trigger", `{"id":"`+made.ID+`"}`)
			if ran.Error != nil {
				return textOf(ran)
			}
			text := ""
			w.until("run of the schedule", func() bool {
				list, err := w.Receipts(t.Context(), toolroom.ReceiptQuery{Tool: "fn:speak", Version: 2, Surface: "cron", Limit: 1})
				text = fmt.Sprint(err)
				if len(list) > 0 {
					text = string(list[0].Preview)
				}
				return len(list) > 0 || err != nil
			})
			w.call("cron:delete", `{"id":"`+made.ID+`"}`)
			return text
		},
	}
	for name, place := range places {
		for _, spelling := range []string{"fn:speak@2", "speak@2", "fn.speak@2", "fn__speak@2"} {
			if text := place(spelling); !strings.Contains(text, "woof") {
				t.Errorf("%s of %s: %.600s", name, spelling, text)
			}
			if spelling == "fn:speak@2" && strings.HasPrefix(name, "CLI") {
				break // each is a process
			}
		}
		if text := place("fn:speak@3"); !strings.Contains(text, "was never released") || strings.Contains(text, "miaow") {
			t.Errorf("%s of an unreleased version: %.600s", name, text)
		}
		if text := place("fn:speak@9"); !strings.Contains(text, "has no version 9") {
			t.Errorf("%s of no version: %.600s", name, text)
		}
	}

	// Policy decides about the tool, in the version that is meant.
	if text := typed("policy", "explain", "fn:speak@2")(""); !strings.Contains(text, "allow, by") {
		t.Errorf("policy explain: %s", text)
	}
	if text := ask("GET", "/api/v1/policy/explain?tool=fn:speak@2", "", ""); !strings.Contains(text, `"effect":"allow"`) {
		t.Errorf("explain over HTTP: %s", text)
	}
	// Authors may name any version.
	for _, words := range [][]string{
		{"woof", "tool", "test", "speak@2", "{}"},
		{"miaow", "tool", "test", "speak@3", "{}"},
		{"miaow", "tool", "show", "speak@3"},
		{"miaow", "tool", "diff", "speak@3"},
		{"version 3", "tool", "release", "speak@3", "--env", "test"},
		{"version 2", "tool", "rollback", "speak@2", "--env", "test"},
		{"woof", "calls", "--tool", "fn:speak@2"},
	} {
		a.run(words[0], words[1:]...)
	}
	w.release("fn:speak", release.Test, 3)
	if text := ask("POST", "/api/v1/releases/rollback", `{"tool":"ID","environment":"test"}`, "fn:speak@2"); !strings.Contains(text, `"version":2`) {
		t.Errorf("rollback over HTTP: %s", text)
	}
	a.run("version 3", "tool", "deprecate", "speak@3")
	a.runFailing(5, []string{"tool", "promote", "speak@1"}, "test serves version 2")
	a.runFailing(5, []string{"tool", "test", "speak@two"}, "is not a version")
	if out, _ := a.try("calls", "--tool", "fn:speak@2"); strings.Contains(out, "moo") {
		t.Errorf("receipts of another version are listed:\n%s", out)
	}
	// A case may fake a version, and a recorded one keeps it.
	w.release("fn:speak", release.Prod, 1)
	a.run("", "tool", "case", "add", "asks", "faked", `tool=fn:speak@2`, "--fakes", `[{"tool":"fn:speak@2","arguments":{},"value":"faked"}]`, "--expect", "faked")
	a.run("ok", "tool", "test", "asks")
}

// TestACallAndItsRetriesKeepTheVersionsWithWhichItBegan releases a version while a call runs
// that is then tried again.
func TestACallAndItsRetriesKeepTheVersionsWithWhichItBegan(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "limits: {retry: {base: 1ms}}\n")
	inner := func(n int) string { return fmt.Sprintf("def inner() -> int:\n    return %d\n", n) }
	w.serve("inner.py", inner(1))
	w.serve("middle.py", "def middle(context) -> int:\n    return context.tools.fn.inner()\n")
	yes := true
	var seen []string
	tool := toolroom.Tool{ID: toolroom.ID{Namespace: "own", Name: "outer"}, Description: "Calls others.", Hints: toolroom.Hints{ReadOnly: &yes}}
	err := app.RegisterTool(w.App, tool, func(ctx context.Context, _ struct{}) (string, error) {
		for _, id := range []string{"fn:inner", "fn:middle"} {
			r := w.Run(ctx, toolroom.Call{Tool: id})
			if r.Error != nil {
				return "", r.Error
			}
			seen = append(seen, string(r.Value))
		}
		if len(seen) > 2 {
			return "done", nil
		}
		if _, err := w.push("inner.py", inner(2)); err != nil {
			return "", err
		}
		w.release("fn:inner", release.Prod, 2)
		for r := w.Run(t.Context(), toolroom.Call{Tool: "fn:inner"}); string(r.Value) != "2"; r = w.Run(t.Context(), toolroom.Call{Tool: "fn:inner"}) {
			if r.Error != nil { // another call gets the new version
				return "", r.Error
			}
		}
		return "", &toolroom.Error{Code: toolroom.CodeUpstreamUnavailable, Message: "not now", Retryable: true}
	})
	if err != nil {
		t.Fatal(err)
	}
	r := w.Run(t.Context(), toolroom.Call{Tool: "own:outer"})
	if r.Error != nil || r.Usage.Attempts != 2 {
		t.Fatalf("%s after %d attempts: %v", r.Value, r.Usage.Attempts, r.Error)
	}
	if want := []string{"1", "1", "1", "1"}; !slices.Equal(seen, want) {
		t.Errorf("the calls inside got %v, want %v", seen, want)
	}
	w.wantValue("fn:middle", "{}", "2")
}
