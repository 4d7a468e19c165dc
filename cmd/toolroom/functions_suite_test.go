package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/secret"
)

// dialect is a language of functions, with the tools that the suite calls. All dialects
// have the same tools.
type dialect struct {
	name string
	// uploads returns the uploads that make the tools.
	uploads func(t *testing.T) []release.Upload
	// lacks are the checks that the language does not pass, as docs/tools.md says.
	lacks []string
	// fault is a part of the message of the tool boom besides "the reason", and frames are
	// parts of its traceback.
	fault  string
	frames []string
}

// dialects are the languages that must pass the suite.
var dialects = []dialect{pythonDialect, typescriptDialect, nodeDialect, javascriptDialect, scriptDialect, wasmDialect}

// suiteChecks are the checks that every language must pass.
var suiteChecks = []struct {
	name  string
	check func(t *testing.T, w workshop, d *dialect)
}{
	{"values", checkValues},
	{"content", checkContent},
	{"errors", checkErrors},
	{"wrong values", checkWrongValues},
	{"streams", checkStreams},
	{"composition", checkComposition},
	{"cancellation", checkCancellation},
	{"secrets", checkSecrets},
	{"context", checkContext},
	{"artifacts", checkArtifacts},
	{"freshness", checkFreshness},
	{"limits", checkLimits},
}

func TestEveryLanguageOfFunctionsFulfilsTheContract(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			w := newWorkshop(t, "")
			if err := w.Parts().Secrets.Set(t.Context(), secret.Ref{Scope: "shop", Name: "token"}, "top-secret-value"); err != nil {
				t.Fatal(err)
			}
			for _, u := range d.uploads(t) {
				w.serveUpload(u)
			}
			lacks := map[string]bool{}
			for _, name := range d.lacks {
				lacks[name] = true
			}
			for _, c := range suiteChecks {
				t.Run(c.name, func(t *testing.T) {
					if lacks[c.name] {
						t.Skipf("%s has no %s", d.name, c.name)
					}
					c.check(t, workshop{w.App, t}, &d)
				})
			}
		})
	}
}

// serveUpload pushes an upload and releases all of its tools to prod.
func (w workshop) serveUpload(u release.Upload) {
	w.t.Helper()
	u.Base = -1
	pushed, err := w.Parts().Releases.Push(w.t.Context(), u, "ada")
	if err != nil {
		w.t.Fatalf("push %s: %v", u.File, err)
	}
	for _, p := range pushed {
		if _, err := w.Parts().Releases.Release(w.t.Context(), release.Order{Tool: p.Tool, Force: true}, "ada"); err != nil {
			w.t.Fatalf("release %s: %v", p.Tool, err)
		}
	}
}

func checkValues(_ *testing.T, w workshop, _ *dialect) {
	for _, v := range []string{
		`null`, `true`, `-1`, `1.5`, `9007199254740993`, `9223372036854775808`, `""`, `"a \"quoted\" line\nand Grüße, 世界 🙂"`, `[]`, `{}`,
		`[[1,[2]],{"a":{"b":[null,false]}}]`, `{"__proto__":1,"constructor":"c","a b":" x "}`,
	} {
		w.wantValue("fn:echo", `{"v":`+v+`}`, v)
	}
	w.wantValue("fn:defaults", `{"a":1}`, `"1y"`)
	w.wantValue("fn:defaults", `{"a":1,"b":"x"}`, `"1x"`)
	for _, arguments := range []string{`{}`, `{"a":"no"}`, `{"a":1,"b":"z"}`, `{"a":1,"c":2}`} {
		w.wantError("fn:defaults", arguments, toolroom.CodeInvalidArguments)
	}
}

func checkContent(t *testing.T, w workshop, _ *dialect) {
	if r := w.call("fn:picture", `{}`); r.Error != nil || len(r.Content) != 1 || r.Content[0].Type != toolroom.ContentImage || r.Content[0].MIMEType != "image/png" {
		t.Errorf("picture: %+v %v", r.Content, r.Error)
	}
}

func checkErrors(t *testing.T, w workshop, d *dialect) {
	w.wantError("fn:boom", `{}`, toolroom.CodeExecutionFailed, "the reason", d.fault)
	r := w.call("fn:boom", `{}`)
	trace, _ := r.Error.Details["traceback"].(string)
	for _, frame := range d.frames {
		if !strings.Contains(trace, frame) {
			t.Errorf("%q is missing in the traceback:\n%s", frame, trace)
		}
	}
	if strings.Contains(trace, "toolroom") {
		t.Errorf("the traceback is not only of the author's own code:\n%s", trace)
	}
}

// checkWrongValues calls tools that return something that is no value, or that does not match their schema.
func checkWrongValues(t *testing.T, w workshop, _ *dialect) {
	for _, tool := range []string{"nan", "cycle", "surrogate"} {
		w.wantError("fn:"+tool, `{}`, toolroom.CodeExecutionFailed)
	}
	w.wantError("fn:wrong", `{}`, toolroom.CodeInvalidOutput)
	w.wantValue("fn:big", `{}`, "9223372036854775808")
	if r := w.call("fn:huge", `{}`); r.Error == nil || r.Error.Code != toolroom.CodeResourceLimit && r.Error.Code != toolroom.CodeExecutionFailed {
		t.Errorf("a value of 100 MB: %v", r.Error)
	}
}

func checkStreams(t *testing.T, w workshop, _ *dialect) {
	var chunks []string
	for e := range w.Stream(t.Context(), toolroom.Call{Tool: "fn:count", Arguments: json.RawMessage(`{"n":3}`)}) {
		switch e.Kind {
		case toolroom.EventChunk:
			chunks = append(chunks, string(e.Chunk))
		case toolroom.EventDone:
			if e.Result.Error != nil || string(e.Result.Value) != "[0,1,2]" {
				t.Errorf("the value is %s: %v", e.Result.Value, e.Result.Error)
			}
		}
	}
	if got := strings.Join(chunks, " "); got != "0 1 2" {
		t.Errorf("chunks %q", got)
	}
}

func checkComposition(t *testing.T, w workshop, _ *dialect) {
	w.wantValue("fn:add", `{"a":1,"b":2}`, "3")
	w.wantValue("fn:sum_all", `{"values":[1,2,3]}`, "6")
	r := w.call("fn:itself", `{}`)
	if r.Error == nil || !strings.Contains(r.Error.Message, "calls itself") {
		t.Errorf("a tool that calls itself: %s %v", r.Value, r.Error)
	}
}

func checkCancellation(t *testing.T, w workshop, _ *dialect) {
	if r := w.Run(t.Context(), toolroom.Call{Tool: "fn:forever", Timeout: time.Second}); r.Status != toolroom.StatusTimeout {
		t.Errorf("forever: %s: %v", r.Status, r.Error)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	if r := w.Run(ctx, toolroom.Call{Tool: "fn:forever"}); r.Status != toolroom.StatusCancelled {
		t.Errorf("a cancelled call: %s: %v", r.Status, r.Error)
	}
	w.wantValue("fn:add", `{"a":1,"b":2}`, "3")
}

func checkSecrets(t *testing.T, w workshop, _ *dialect) {
	w.wantValue("fn:token_length", `{}`, "16")
	if r := w.call("fn:tell", `{}`); r.Error != nil || strings.Contains(string(r.Value), "top-secret") {
		t.Errorf("the secret is in the result: %s %v", r.Value, r.Error)
	}
	w.wantError("fn:undeclared", `{}`, toolroom.CodeExecutionFailed)
}

func checkContext(t *testing.T, w workshop, _ *dialect) {
	w.wantValue("fn:about", `{}`, `{"greeting":"hello","env":"prod","call":"call_"}`)
	var progress, logs []string
	for e := range w.Stream(t.Context(), toolroom.Call{Tool: "fn:report", Arguments: json.RawMessage(`{}`)}) {
		switch {
		case e.Kind == toolroom.EventProgress && e.Progress != nil:
			progress = append(progress, fmt.Sprint(e.Progress.Done, "/", e.Progress.Total, " ", e.Progress.Message))
		case e.Kind == toolroom.EventLog && e.Log != nil:
			logs = append(logs, e.Log.Level+": "+e.Log.Message)
		}
	}
	if got := strings.Join(progress, ", "); got != "1/2 half" {
		t.Errorf("progress %q", got)
	}
	if got := strings.Join(logs, ", "); got != "warning: careful" {
		t.Errorf("logs %q", got)
	}
}

func checkArtifacts(_ *testing.T, w workshop, _ *dialect) { w.wantValue("fn:keep", `{}`, `"abc"`) }

// checkFreshness calls a tool that stores its argument in every place that it finds, and
// returns what others have stored there.
func checkFreshness(t *testing.T, w workshop, _ *dialect) {
	w.wantValue("fn:leak", `{"secret":"secret-1"}`, `[]`)
	w.wantValue("fn:leak", `{"secret":"secret-2"}`, `[]`)
	var wg sync.WaitGroup
	for _, secret := range []string{"secret-3", "secret-4", "secret-5", "secret-6"} {
		wg.Go(func() {
			r := w.call("fn:leak", `{"secret":"`+secret+`"}`)
			if r.Error != nil || string(r.Value) != "[]" {
				t.Errorf("%s found %s: %v", secret, r.Value, r.Error)
				return
			}
			if r.Execution == nil || strings.TrimSpace(r.Execution.Stderr) != "the log of "+secret {
				t.Errorf("%s: the log is %+v", secret, r.Execution)
			}
		})
	}
	wg.Wait()
}

func checkLimits(_ *testing.T, w workshop, _ *dialect) {
	w.wantError("fn:flood", `{}`, toolroom.CodeResourceLimit)
	w.wantError("fn:hog", `{}`, toolroom.CodeResourceLimit)
	w.wantValue("fn:add", `{"a":1,"b":2}`, "3")
}
