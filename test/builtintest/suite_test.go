package builtintest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
)

// keptNumber returns a kept id as a number.
func (w *world) keptNumber(name string) int {
	n := 0
	_, _ = fmt.Sscan(w.ids[name], &n) // 0 is no process
	return n
}

// callValid makes the valid call of a row.
func (w *world) callValid(ctx context.Context, r row, who, mark string) *toolroom.Result {
	if r.tool == "git:commit" { // so that there is something to commit
		_ = os.WriteFile(filepath.Join(w.dir, "README.md"), fmt.Appendln(nil, time.Now()), 0o600)
	}
	out := w.run(ctx, who, r.tool, r.args(w, mark))
	if r.keep != "" && out.OK() {
		var v map[string]any
		if err := json.Unmarshal(out.Value, &v); err == nil {
			w.ids[mark+r.keep] = fmt.Sprint(v[r.keep])
		}
	}
	return out
}

func (r row) check(t *testing.T, out *toolroom.Result) {
	t.Helper()
	switch {
	case r.fails == "" && !out.OK():
		t.Errorf("%s: %+v", r.tool, out.Error)
	case r.fails != "" && (out.OK() || out.Error.Code != r.fails):
		t.Errorf("%s: %+v, want %s", r.tool, out.Error, r.fails)
	}
}

func TestEveryToolHasARow(t *testing.T) {
	t.Parallel()
	tools, err := Tools()
	if err != nil {
		t.Fatal(err)
	}
	var have, want []string
	for _, tool := range tools {
		have = append(have, tool.ID.String())
	}
	for _, r := range rows() {
		want = append(want, r.tool)
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("the tools are\n%v, the rows\n%v", have, want)
	}
}

// Two identities make the same calls at the same time. Both succeed, and neither sees what
// is the other's.
func TestTwoIdentitiesSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	var mu sync.Mutex // ids and the files of the workspace, which both share
	var wg sync.WaitGroup
	for _, who := range []string{"ann", "bob"} {
		other := map[string]string{"ann": "bob", "bob": "ann"}[who]
		wg.Go(func() {
			for _, r := range rows() {
				shared := strings.HasPrefix(r.tool, "file:") || strings.HasPrefix(r.tool, "git:") || r.tool == "shell:exec" || r.keep != "" || strings.HasPrefix(r.tool, "process:") || strings.HasPrefix(r.tool, "cron:")
				if shared {
					mu.Lock()
				}
				out := w.callValid(t.Context(), r, who, "mark-"+who)
				if shared {
					mu.Unlock()
				}
				r.check(t, out)
				if strings.Contains(out.Text()+string(out.Value), "mark-"+other) {
					t.Errorf("%s shows %s what is %s's: %s", r.tool, who, other, out.Text())
				}
			}
		})
	}
	wg.Wait()
}

// hostile are texts that mean something to a shell, a path, a URL, a template, a terminal or
// a database.
var hostile = []string{
	"../../../../etc/passwd", "link/secret.txt", "/proc/self/environ", "a\x00b", "$(id >/tmp/x); `id`", "file:///etc/passwd", "http://169.254.169.254/latest/meta-data/",
	"'; DROP TABLE receipts; --", "{{7*7}}${7*7}", "\x1b]0;x\x07\u202e\ufeff", "-rf",
}

// abusiveArguments returns arguments that no tool likes: of each argument its hostile, huge and wrong
// values, in place of the valid one.
func abusiveArguments(tool toolroom.Tool, valid toolroom.Args) (invalid, strange []toolroom.Args) {
	var schema struct {
		Properties map[string]struct{ Type any }
		Required   []string
	}
	if err := json.Unmarshal(tool.InputSchema, &schema); err != nil {
		panic(err)
	}
	with := func(name string, value any) toolroom.Args {
		changed := maps.Clone(valid)
		if changed == nil {
			changed = toolroom.Args{}
		}
		changed[name] = value
		return changed
	}
	invalid = append(invalid, with("no such argument", 1))
	for _, name := range schema.Required {
		less := maps.Clone(valid)
		delete(less, name)
		invalid = append(invalid, less)
	}
	for i, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		switch schema.Properties[name].Type {
		case "string":
			invalid = append(invalid, with(name, 1), with(name, []string{"x"}))
			strange = append(strange, with(name, hostile[i%len(hostile)]), with(name, hostile[(i+5)%len(hostile)]), with(name, strings.Repeat("x", 2<<20)))
			if i == 0 || slices.Contains(schema.Required, name) {
				for _, text := range hostile {
					strange = append(strange, with(name, text))
				}
			}
		case "integer":
			invalid = append(invalid, with(name, "x"), with(name, 0.5))
			strange = append(strange, with(name, -1), with(name, 0), with(name, json.Number("9007199254740993")))
		case "boolean":
			invalid = append(invalid, with(name, "yes"))
		case "array":
			invalid = append(invalid, with(name, "x"))
			strange = append(strange, with(name, slices.Repeat([]string{"x"}, 100_000)))
		}
	}
	return invalid, strange
}

// Invalid arguments are refused as such. Hostile and huge ones need not succeed, but each
// call ends soon, with a bounded result and an error with a code, and reaches nothing outside.
func TestInvalidHostileAndHugeArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	tools, err := Tools()
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]toolroom.Tool{}
	for _, tool := range tools {
		byID[tool.ID.String()] = tool
	}
	for _, r := range rows() {
		valid := r.args(w, "m")
		w.callValid(t.Context(), r, "", "m") // it makes what the others need
		if r.tool == "cron:delete" || r.tool == "process:kill" || r.tool == "browser:close" {
			continue // only an id, or nothing, which others have tested
		}
		invalid, strange := abusiveArguments(byID[r.tool], valid)
		for _, args := range invalid {
			if out := w.run(t.Context(), "", r.tool, args); out.OK() || out.Error.Code != toolroom.CodeInvalidArguments {
				t.Errorf("%s takes %.200s: %+v", r.tool, args.JSON(), out.Error)
			}
		}
		for _, args := range strange {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			began := time.Now()
			out := w.run(ctx, "", r.tool, args)
			cancel()
			text := out.Text() + string(out.Value)
			switch {
			case time.Since(began) > 20*time.Second:
				t.Errorf("%s %.200s took %s", r.tool, args.JSON(), time.Since(began))
			case len(out.Text()) > 100_000:
				t.Errorf("%s %.200s has %d bytes", r.tool, args.JSON(), len(out.Text()))
			case !out.OK() && (out.Error.Code == toolroom.CodeInternal || out.Error.Message == ""):
				t.Errorf("%s %.200s: %+v", r.tool, args.JSON(), out.Error)
			case strings.Contains(text, "canary"), r.tool != "shell:exec" && strings.Contains(text, "root:x:0"):
				t.Errorf("%s %.200s reads outside: %.300s", r.tool, args.JSON(), text)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(w.dir), "outside", "secret.txt")); err != nil {
		t.Error(err)
	}
}

// A call that is cancelled ends at once: before it began, in its first moments, and while it
// waits.
func TestCancelInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for i, r := range rows() {
		if out := w.run(cancelled, "", r.tool, r.args(w, "m")); out.OK() {
			t.Errorf("%s ran although it was cancelled", r.tool)
		}
		w.callValid(t.Context(), r, "", "m")
		if r.tool == "process:start" {
			w.ids["pid"] = w.ids["mpid"]
		}
		attempts := map[string]toolroom.Args{"soon": r.args(w, "m")}
		if r.slow != nil {
			attempts["slow"] = r.slow(w)
		}
		for name, args := range attempts {
			if strings.HasPrefix(r.tool, "browser:") { // a cancelled call may have left it without a page
				w.run(t.Context(), "", "browser:navigate", toolroom.Args{"url": w.url + "/site/"})
			}
			ctx, cancel := context.WithCancel(t.Context())
			wait := time.Duration(i%5) * time.Millisecond
			if name == "slow" {
				wait = 200 * time.Millisecond
			}
			timer := time.AfterFunc(wait, cancel)
			began := time.Now()
			out := w.run(ctx, "", r.tool, args)
			timer.Stop()
			cancel()
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("%s (%s) took %s", r.tool, name, took)
			}
			if name == "slow" && out.Status != toolroom.StatusCancelled {
				t.Errorf("%s (%s): %s %+v", r.tool, name, out.Status, out.Error)
			}
		}
	}
}

func TestEveryToolIsDeniedByPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	denying := newDenyingWorld(t)
	before, err := os.ReadDir(denying.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows() {
		if out := denying.run(t.Context(), "", r.tool, r.args(w, "m")); out.Status != toolroom.StatusDenied {
			t.Errorf("%s is not denied: %+v", r.tool, out.Error)
		}
	}
	after, err := os.ReadDir(denying.dir)
	if err != nil || len(after) != len(before) {
		t.Errorf("denied calls changed the folder: %v, %v", after, err)
	}
}

func newDenyingWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, `tools: {deny: ["file.*","git.*","process.*","web.*","memory.*","sessions.*","cron.*","message.*","minio.*","k8s.*","media.*","image.*","audio.*","screen.*","camera.*","gmail.*","calendar.*","docs.*","drive.*","tasks.*","browser.*","system.*"], agents: {none: {deny: ["*"]}}, immutable_denylist: [{tool: "shell.exec", args_pattern: "git", reason: never}]}`)
}
