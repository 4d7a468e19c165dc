package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/test/builtintest"
)

// workshop is a room with the built-in tools, in a workspace of its own.
type workshop struct {
	*app.App
	t    *testing.T
	dir  string
	site string // a web site that web:fetch may reach
}

func newWorkshop(t *testing.T, config string) *workshop {
	t.Helper()
	return newWorkshopWith(t, config, func(*app.Options) {})
}

func newWorkshopWith(t *testing.T, config string, change func(*app.Options)) *workshop {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			select {
			case <-r.Context().Done():
			case <-time.After(20 * time.Second):
			}
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<h1>Page</h1>"))
	}))
	t.Cleanup(site.Close)
	w := &workshop{t: t, dir: filepath.Join(base, "work"), site: site.URL}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(base, "toolroom.yaml")
	text := fmt.Sprintf("egress: {allow: [%q]}\nlimits: {output_bytes: 10000}\n%s\n", strings.TrimPrefix(site.URL, "http://"), config)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := app.Options{Home: filepath.Join(base, "home"), Workspace: w.dir, ConfigFile: file, Helper: self}
	change(&o)
	w.App = open(t, o)
	return w
}

func (w *workshop) as(who, tool string, args map[string]any) *toolroom.Result {
	return w.Run(w.t.Context(), toolroom.Call{Tool: tool, Arguments: toolroom.Args(args).JSON(), Identity: toolroom.Identity{Subject: who}})
}

func (w *workshop) call(tool string, args map[string]any) *toolroom.Result {
	return w.as("", tool, args)
}

// needsSandbox skips a test on a machine where commands cannot run. In CI they must.
func (w *workshop) needsSandbox() {
	w.t.Helper()
	if r := w.call("shell:exec", map[string]any{"command": "true"}); !r.OK() {
		if os.Getenv("CI") == "true" {
			w.t.Fatal(r.Error)
		}
		w.t.Skip(r.Error)
	}
}

func (w *workshop) put(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func builtinTools(t *testing.T, r *app.App, who toolroom.Identity) []string {
	t.Helper()
	var ids []string
	cursor := ""
	for {
		page, err := r.Tools(who, catalog.ListOptions{Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			if ns, _, _ := strings.Cut(e.ID, ":"); ns != "code" {
				ids = append(ids, e.ID)
			}
		}
		if cursor = page.Next; cursor == "" {
			slices.Sort(ids)
			return ids
		}
	}
}

// The profiles of the reference mean real tools.
func TestProfilesSelectBuiltinTools(t *testing.T) {
	t.Parallel()
	minimal := []string{"file:list", "file:read", "file:search", "system:info", "web:fetch"}
	messaging := append([]string{
		"cron:create", "cron:delete", "cron:list", "cron:pause", "cron:resume", "cron:trigger",
		"memory:append", "memory:edit", "memory:forget", "memory:list", "memory:read", "memory:search", "memory:write", "web:search", "web:search.news",
	}, minimal...)
	coding := append([]string{
		"file:edit", "file:patch", "file:undo", "file:write", "process:kill", "process:list", "process:output", "process:start", "process:status", "process:write", "shell:exec",
		"browser:assert", "browser:checkpoint.resume", "browser:checkpoint.save", "browser:click", "browser:close", "browser:content", "browser:eval", "browser:extract",
		"browser:find", "browser:navigate", "browser:screenshot", "browser:snapshot", "browser:tabs", "browser:type", "browser:wait_for",
		"git:add", "git:blame", "git:branch", "git:commit", "git:diff", "git:log", "git:show", "git:status",
	}, messaging...)
	for profile, want := range map[string][]string{"minimal": minimal, "messaging": messaging, "coding": coding, "full": append(slices.Clone(coding), "message:send", "sessions:create", "sessions:delete", "sessions:history", "sessions:list")} {
		w := newWorkshop(t, "tools: {profile: "+profile+"}")
		slices.Sort(want)
		if got := builtinTools(t, w.App, toolroom.Identity{}); !slices.Equal(got, want) {
			t.Errorf("%s is %v\nwant %v", profile, got, want)
		}
	}
	w := newWorkshop(t, "tools: {profile: minimal}")
	if r := w.call("file:write", map[string]any{"path": "a", "content": "x"}); r.Status != toolroom.StatusDenied {
		t.Errorf("got %+v", r)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "a")); err == nil {
		t.Error("a denied call has written the file")
	}
}

func TestPacksAreTurnedOnAndOff(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"builtin: {off: true}":                               "system:info",
		"builtin: {off: true, memory: {}}":                   "memory:append",
		"builtin: {shell: {off: true}}":                      "browser:assert",
		"builtin: {browser: {off: true}}":                    "cron:create",
		"builtin: {browser: {off: true}, cron: {off: true}}": "file:edit",
		"sources: {git: {cli: {command: git}}}":              "browser:assert",
		"builtin: {file: {roots: [/nowhere/at/all]}}":        "browser:assert",
	} {
		w := newWorkshop(t, config)
		got := builtinTools(t, w.App, toolroom.Identity{})
		if got[0] != want || strings.Contains(config, "shell") && slices.Contains(got, "shell:exec") || strings.Contains(config, "sources") && slices.Contains(got, "git:blame") {
			t.Errorf("%s: %v", config, got)
		}
		if strings.Contains(config, "nowhere") {
			if r := w.call("file:read", map[string]any{"path": "a"}); r.OK() || !strings.Contains(r.Error.Hint, "builtin.file.roots") {
				t.Errorf("got %+v", r.Error)
			}
		}
	}
	if got := builtinTools(t, open(t, app.Options{}), toolroom.Identity{}); !slices.Equal(got, []string{"system:info"}) {
		t.Errorf("a room without a workspace has %v", got)
	}
}

func TestAToolOfAPackThatIsOffSaysHowToTurnItOn(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]string{"k8s:pods": "builtin: {k8s: {}}", "screen:capture": "builtin: {media: {}}", "minio:share": "builtin: {storage: {}}"} {
		w := newWorkshop(t, "")
		if r := w.call(tool, nil); r.OK() || r.Error.Code != toolroom.CodeToolNotFound || !strings.Contains(r.Error.Hint, want) {
			t.Errorf("%s: %+v", tool, r.Error)
		}
	}
	w := newWorkshop(t, "builtin: {media: {}}")
	if r := w.call("media:sendd", nil); r.OK() || !strings.Contains(r.Error.Hint, "media:send") || strings.Contains(r.Error.Hint, "turn") {
		t.Errorf("%+v", r.Error)
	}
}

// A namespace that moves to another pack must be named here, too.
func TestEachToolOfAServiceIsKnownWhenItIsOff(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "builtin: {media: {}, k8s: {}, google: {}, storage: {url: 'http://127.0.0.1:9', bucket: b, access_key: a, secret_key: 'secret://s3/key'}}")
	off := newWorkshop(t, "")
	there := builtinTools(t, off.App, toolroom.Identity{})
	for _, id := range builtinTools(t, w.App, toolroom.Identity{}) {
		if slices.Contains(there, id) {
			continue
		}
		if r := off.call(id, nil); r.OK() || !strings.Contains(r.Error.Hint, "turn them on") {
			t.Errorf("%s: %+v", id, r.Error)
		}
	}
}

// calls are valid calls of every tool, in an order in which they can be made.
func (w *workshop) calls() []toolroom.Call {
	var list []toolroom.Call
	add := func(tool string, args toolroom.Args) {
		list = append(list, toolroom.Call{Tool: tool, Arguments: args.JSON(), Session: "s"})
	}
	add("system:info", toolroom.Args{})
	add("file:write", toolroom.Args{"path": "sub/a.txt", "content": "one\ntwo\n"})
	add("file:read", toolroom.Args{"path": "sub/a.txt"})
	add("file:edit", toolroom.Args{"path": "sub/a.txt", "search": "two", "replace": "2"})
	add("file:patch", toolroom.Args{"patch": "--- a/sub/a.txt\n+++ b/sub/a.txt\n@@ -1 +1 @@\n-one\n+1\n"})
	add("file:undo", toolroom.Args{})
	add("file:list", toolroom.Args{"recursive": true})
	add("file:search", toolroom.Args{"query": "one"})
	add("shell:exec", toolroom.Args{"command": "git init -q . && wc -c sub/a.txt"})
	add("git:add", toolroom.Args{"all": true})
	add("git:commit", toolroom.Args{"message": "first"})
	add("git:status", toolroom.Args{})
	add("git:diff", toolroom.Args{})
	add("git:log", toolroom.Args{})
	add("git:show", toolroom.Args{})
	add("git:blame", toolroom.Args{"file": "sub/a.txt"})
	add("git:branch", toolroom.Args{})
	add("process:start", toolroom.Args{"command": "sleep", "args": []string{"60"}, "pty": true})
	add("process:list", toolroom.Args{})
	add("web:fetch", toolroom.Args{"url": w.site})
	add("memory:write", toolroom.Args{"namespace": "n", "content": "text one"})
	add("memory:append", toolroom.Args{"namespace": "n", "content": "text two"})
	add("memory:read", toolroom.Args{"namespace": "n"})
	add("memory:edit", toolroom.Args{"namespace": "n", "search": "one", "replace": "1"})
	add("memory:search", toolroom.Args{"query": "text"})
	add("memory:list", toolroom.Args{})
	add("memory:forget", toolroom.Args{"namespace": "n"})
	add("sessions:create", toolroom.Args{"id": "one"})
	add("sessions:list", toolroom.Args{})
	add("sessions:history", toolroom.Args{})
	add("sessions:delete", toolroom.Args{"id": "one"})
	add("cron:create", toolroom.Args{"schedule": "@daily", "tool": "memory:list", "name": "n"})
	add("cron:list", toolroom.Args{})
	if hasChromium(w.t) {
		add("browser:navigate", toolroom.Args{"url": w.site})
		add("browser:snapshot", toolroom.Args{})
		add("browser:find", toolroom.Args{"text": "page"})
		add("browser:click", toolroom.Args{"selector": "h1"})
		add("browser:type", toolroom.Args{"key": "Tab"})
		add("browser:wait_for", toolroom.Args{"text": "Page"})
		add("browser:assert", toolroom.Args{"selector": "h1", "count": 1})
		add("browser:content", toolroom.Args{})
		add("browser:extract", toolroom.Args{"selector": "h1"})
		add("browser:screenshot", toolroom.Args{})
		add("browser:eval", toolroom.Args{"expression": "document.title"})
		add("browser:tabs", toolroom.Args{})
		add("browser:checkpoint.save", toolroom.Args{"name": "here"})
		add("browser:checkpoint.resume", toolroom.Args{"name": "here"})
		add("browser:close", toolroom.Args{})
	}
	return list
}

// hasChromium reports whether the browser tools work. In CI they must.
func hasChromium(t *testing.T) bool {
	_, err := exec.LookPath("chromium")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	return err == nil
}

// Each tool is called with valid arguments, cancelled, with unknown and huge arguments, and
// denied by policy. Values fit the output schemas, because the pipeline checks them.
func TestEveryBuiltinToolThroughThePipeline(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.needsSandbox()
	called := map[string]bool{}
	for _, call := range w.calls() {
		r := w.Run(t.Context(), call)
		called[call.Tool] = true
		if !r.OK() {
			t.Errorf("%s: %+v", call.Tool, r.Error)
			continue
		}
		if call.Tool == "cron:create" {
			var s struct{ ID string }
			if err := r.Decode(&s); err != nil {
				t.Fatal(err)
			}
			for _, tool := range []string{"cron:trigger", "cron:pause", "cron:resume", "cron:delete"} {
				called[tool] = true
				if r := w.as("another", tool, map[string]any{"id": s.ID}); r.OK() {
					t.Errorf("%s: another identity may", tool)
				}
				if r := w.call(tool, map[string]any{"id": s.ID}); !r.OK() {
					t.Errorf("%s: %+v", tool, r.Error)
				}
			}
		}
		if call.Tool == "process:start" {
			var p struct{ PID int }
			if err := r.Decode(&p); err != nil {
				t.Fatal(err)
			}
			for _, tool := range []string{"process:status", "process:write", "process:output", "process:kill"} {
				called[tool] = true
				args := map[string]any{"pid": p.PID}
				if tool == "process:write" {
					args["input"] = "x\n"
				}
				if r := w.call(tool, args); !r.OK() {
					t.Errorf("%s: %+v", tool, r.Error)
				}
				if r := w.as("another", tool, args); r.OK() {
					t.Errorf("%s: another identity may", tool)
				}
			}
		}
	}
	for _, id := range builtinTools(t, w.App, toolroom.Identity{}) {
		if !called[id] && !strings.HasPrefix(id, "web:search") && id != "message:send" && // they have no provider here
			(hasChromium(t) || !strings.HasPrefix(id, "browser:")) {
			t.Errorf("%s was not called", id)
		}
		if r := w.call(id, map[string]any{"no such argument": 1}); r.OK() || r.Error.Code != toolroom.CodeInvalidArguments {
			t.Errorf("%s takes an unknown argument: %+v", id, r.Error)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	denying := newWorkshop(t, `tools: {deny: ["*"]}`)
	huge := strings.Repeat("x", 3<<20)
	for _, call := range w.calls() {
		if r := w.Run(cancelled, call); r.OK() {
			t.Errorf("%s ran although it was cancelled", call.Tool)
		}
		if r := denying.Run(t.Context(), call); r.Status != toolroom.StatusDenied {
			t.Errorf("%s is not denied: %+v", call.Tool, r)
		}
		var args map[string]any
		if err := json.Unmarshal(call.Arguments, &args); err != nil {
			t.Fatal(err)
		}
		for name, value := range args {
			if _, isText := value.(string); isText {
				args[name] = huge
			}
		}
		began := time.Now()
		r := w.call(call.Tool, args) // it need not succeed, but must end soon and be bounded
		if len(r.Text()) > 100_000 || time.Since(began) > 40*time.Second {
			t.Errorf("%s with huge arguments: %d bytes after %s", call.Tool, len(r.Text()), time.Since(began))
		}
	}
	if entries, err := os.ReadDir(denying.dir); err != nil || len(entries) > 0 {
		t.Errorf("denied calls left %v, %v", entries, err)
	}
}

// What a receipt expects of a call is what happens.
func TestExpectedEffectsOfBuiltinTools(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.put("a.txt", "one\n")
	for _, tt := range []struct {
		tool string
		args map[string]any
		want []string
	}{
		{"file:read", map[string]any{"path": "a.txt"}, []string{"file.read:" + w.dir + "/a.txt"}},
		{"file:write", map[string]any{"path": "new/b.txt", "content": "x"}, []string{"destroy:", "file.write:" + w.dir + "/new/b.txt"}},
		{"file:edit", map[string]any{"path": "a.txt", "search": "one", "replace": "1"}, []string{"destroy:", "file.read:" + w.dir + "/a.txt", "file.write:" + w.dir + "/a.txt"}},
		{"file:list", map[string]any{}, []string{"file.read:" + w.dir}},
		{"web:fetch", map[string]any{"url": w.site + "/x"}, []string{"destroy:", "host.get:" + strings.TrimPrefix(w.site, "http://"), "send:"}},
		{"memory:write", map[string]any{"namespace": "n", "content": "file:///etc/passwd"}, []string{"destroy:"}},
		{"memory:forget", map[string]any{"namespace": "n"}, []string{"destroy:"}},
		{"cron:create", map[string]any{"schedule": "@daily", "tool": "file:read", "arguments": map[string]any{"path": "a.txt"}}, []string{}},
	} {
		r := w.call(tt.tool, tt.args)
		if !r.OK() {
			t.Fatalf("%s: %+v", tt.tool, r.Error)
		}
		rec, err := w.Receipt(t.Context(), r.Call)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range rec.Expected {
			kind := string(e.Kind)
			if e.Mode != "" {
				kind += "." + e.Mode
			}
			got = append(got, kind+":"+e.Target)
		}
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s expects %v, want %v", tt.tool, got, tt.want)
		}
	}
}

func TestWebContentIsLabelledAndApprovalsShowADiff(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "tools: {confirm: [file.write]}\n")
	if r := w.call("web:fetch", map[string]any{"url": w.site}); !slices.Contains(r.Labels, "untrusted") || !strings.Contains(r.Text(), "# Page") {
		t.Errorf("%v %s", r.Labels, r.Text())
	}
	w.put("a.txt", "one\n")
	r := w.Run(t.Context(), toolroom.Call{Tool: "file:write", Arguments: toolroom.Args{"path": "a.txt", "content": "two\n"}.JSON(), NoWait: true})
	if r.Error == nil || r.Error.Code != toolroom.CodeApprovalRequired {
		t.Fatalf("got %+v", r)
	}
	waiting, err := w.Approvals(t.Context(), "")
	if err != nil || len(waiting) != 1 || !strings.Contains(waiting[0].Diff, "-one\n+two\n") {
		t.Errorf("%+v, %v", waiting, err)
	}
}

// The file tools and commands do not reach Toolroom's own state, and tools with the same
// arguments of two identities do not meet.
func TestToolroomsStateIsOutOfReach(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "builtin: {file: {roots: [.]}}") // the folder of the config, which holds the home
	for _, path := range []string{"home", "home/toolroom.db", "work/../home/toolroom.db"} {
		if r := w.call("file:read", map[string]any{"path": path}); r.OK() || r.Error.Code != toolroom.CodeDenied && r.Error.Code != toolroom.CodeInvalidArguments {
			t.Errorf("%s: %+v", path, r.Error)
		}
	}
	if r := w.call("file:write", map[string]any{"path": "toolroom.yaml", "content": "tools: {profile: full}"}); r.OK() || r.Error.Code != toolroom.CodeDenied {
		t.Errorf("the config: %+v", r.Error)
	}
	w.needsSandbox()
	for _, command := range []string{"cat home/toolroom.db", "ls home | grep .", "echo x > toolroom.yaml"} {
		if r := w.call("shell:exec", map[string]any{"command": command}); r.OK() {
			t.Errorf("%s: %s", command, r.Text())
		}
	}
}

// defaultNamespaces are those of the packs that need no configuration.
var defaultNamespaces = []string{"file", "shell", "process", "git", "memory", "system", "sessions", "cron"}

// The examples in the definitions are calls that work.
func TestExamplesOfBuiltinToolsRun(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.needsSandbox()
	w.put("README.md", strings.Repeat("line\n", 200))
	w.put("main.go", "package main\n\nfunc rootHandler() {\n\tport := 80\n}\n"+strings.Repeat("// more\n", 30))
	w.put("greeting.txt", "hello\n")
	if r := w.call("shell:exec", map[string]any{"command": "git init -q . && git add . && git -c user.name=x -c user.email=x commit -qm first && echo more >> README.md"}); !r.OK() {
		t.Fatal(r.Error)
	}
	w.call("memory:write", map[string]any{"namespace": "user/preferences", "content": "short"})
	w.call("memory:write", map[string]any{"namespace": "project", "content": "The deadline of the project is soon.\n"})
	for _, pack := range builtintest.Packs() {
		for _, tool := range pack.Tools {
			for _, example := range tool.Examples {
				arguments := string(example.Arguments)
				if tool.ID.String() == "sessions:history" {
					arguments = `{"id":"experiment-4"}` // the calls of this test have no session
				}
				if strings.Contains(arguments, "4711") || slices.Contains([]string{"web", "browser", "message"}, tool.ID.Namespace) {
					continue // these need a process, a provider, the internet, or a page
				}
				if !slices.Contains(defaultNamespaces, tool.ID.Namespace) {
					continue // these are off until a service is configured
				}
				if r := w.Run(t.Context(), toolroom.Call{Tool: tool.ID.String(), Arguments: json.RawMessage(arguments)}); !r.OK() {
					t.Errorf("%s %s: %+v", tool.ID, arguments, r.Error)
				}
			}
		}
	}
}
