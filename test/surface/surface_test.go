package surface

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/cli"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/server"
)

const configText = `
server: {listen: "127.0.0.1:0", mcp: {sse: true}, toolflow: true}
expose: {mode: search, direct: ["*"]}
limits: {approval_wait: 1ms}
code: {host: true}
builtin: {off: true, cron: {}}
tools:
  profiles: {messaging: ["pages.fetch"]}
  profile: messaging
  allow: ["issues.*", "term.*", "relay.*", "notes.*", "code.*", "gate.*"]
  deny: ["window.*"]
  agents: {fast: {profile: minimal, allow: ["relay.*", "code.*"]}}
  providers: {ollama: {deny: ["pages.fetch"]}}
  skills: {reader: {permissions: {tools: ["pages.fetch", "relay.*"]}}}
  hooks: [{tool: issues.close, action: confirm}, {tool: gate.unlock, action: confirm}]
  immutable_denylist: [{tool: "term.*", args_pattern: 'rm -rf /', reason: never}]
  sensitive: {tools: ["notes.drop"]}
policy:
  rules:
    - '@id("no-etc") forbid(principal, action, resource == Tool::"term:exec") when { context.arguments.command like "*/etc/*" };'
    - '@isolation("gvisor") permit(principal, action, resource == Tool::"term:spawn");'
`

// TestMain also runs the guest of code mode, because the test binary is that, too.
func TestMain(m *testing.M) {
	if code, ok := app.RunHelper(os.Args[1:]); ok {
		os.Exit(code)
	}
	code := m.Run()
	if folder, err := engineCache(); err == nil {
		os.RemoveAll(folder)
	}
	os.Exit(code)
}

// engineCache returns the cache folder of the homes of the tests.
var engineCache = sync.OnceValues(enginetest.MakeCache)

// attempt is one call that is made through every handler.
type attempt struct {
	name      string
	tool      string // canonical; spelled is how the caller writes it
	spelled   string
	arguments string
	who       toolroom.Identity
	effect    toolroom.Verdict
	code      toolroom.Code // empty is success
	rule      string        // a part of it
}

func attempts() []attempt {
	const safe = `{"command":"ls"}`
	return []attempt{
		{name: "allowed by the profile", tool: "pages:fetch", arguments: safe, effect: toolroom.VerdictAllow, rule: "tools.profile: messaging"},
		{name: "denied by a pattern", tool: "window:open", arguments: safe, effect: toolroom.VerdictDeny, code: toolroom.CodeDenied, rule: `tools.deny[0]: "window.*"`},
		{name: "denied to an agent", tool: "term:exec", arguments: safe, who: toolroom.Identity{Agent: "fast"}, effect: toolroom.VerdictDeny, code: toolroom.CodeDenied, rule: "tools.agents.fast"},
		{name: "denied to a provider", tool: "pages:fetch", arguments: safe, who: toolroom.Identity{Provider: "ollama"}, effect: toolroom.VerdictDeny, code: toolroom.CodeDenied, rule: "tools.providers.ollama.deny[0]"},
		{name: "denied to a skill", tool: "term:exec", arguments: safe, who: toolroom.Identity{Skill: "reader"}, effect: toolroom.VerdictDeny, code: toolroom.CodeDenied, rule: "tools.skills.reader: its permissions do not include the tool"},
		{name: "denied to an unknown skill", tool: "pages:fetch", arguments: safe, who: toolroom.Identity{Skill: "raeder"}, effect: toolroom.VerdictDeny, code: toolroom.CodeDenied, rule: `there is no skill "raeder"`},
		{name: "asked about by a hook", tool: "issues:close", arguments: safe, effect: toolroom.VerdictConfirm, code: toolroom.CodeApprovalRequired, rule: "tools.hooks[0]"},
		{name: "sensitive without elevation", tool: "notes:drop", arguments: safe, effect: toolroom.VerdictDeny, code: toolroom.CodeDenied, rule: "tools.sensitive.tools[0]"},
		{name: "denied for its arguments by a rule", tool: "term:exec", arguments: `{"command":"cat /etc/passwd"}`, effect: toolroom.VerdictDeny, code: toolroom.CodeDenied, rule: "(no-etc)"},
		{name: "denied for its arguments for ever", tool: "term:exec", arguments: `{"command":"rm  -rf\t/"}`, effect: toolroom.VerdictDeny, code: toolroom.CodeDenied, rule: "tools.immutable_denylist[0]"},
		{name: "allowed with other arguments", tool: "term:exec", arguments: safe, effect: toolroom.VerdictAllow, rule: `tools.allow[1]: "term.*"`},
		{name: "not isolated enough", tool: "term:spawn", arguments: safe, effect: toolroom.VerdictAllow, code: toolroom.CodeSandboxUnavailable, rule: `tools.allow[1]: "term.*"`},
		{name: "written with a dot", tool: "window:open", spelled: "window.open", arguments: safe, effect: toolroom.VerdictDeny, code: toolroom.CodeDenied, rule: "tools.deny[0]"},
		{name: "written for a model", tool: "window:open", spelled: "window__open", arguments: safe, effect: toolroom.VerdictDeny, code: toolroom.CodeDenied, rule: "tools.deny[0]"},
		{name: "written as of a server", tool: "window:open", spelled: "mcp:window:open", arguments: safe, effect: toolroom.VerdictDeny, code: toolroom.CodeDenied, rule: "tools.deny[0]"},
		{name: "by its bare name", tool: "window:open", spelled: "open", arguments: safe, effect: toolroom.VerdictDeny, code: toolroom.CodeDenied, rule: "tools.deny[0]"},
		{name: "by its alias", tool: "window:open", spelled: "page:visit", arguments: safe, effect: toolroom.VerdictDeny, code: toolroom.CodeDenied, rule: "tools.deny[0]"},
		{name: "an argument that looks like another", tool: "term:exec", arguments: `{"Command":"cat /etc/passwd"}`, code: toolroom.CodeInvalidArguments},
	}
}

// fixture is a served room.
type fixture struct {
	t    *testing.T
	dir  string
	room *app.App
	url  string
	self string // the path of the test binary, which is also the guest
}

func guestOf(self string) app.Guest { return app.Guest{Path: self, Args: []string{guest.MainArg}} }

func TestEveryHandlerDecidesTheSame(t *testing.T) {
	t.Parallel()
	f := serve(t)
	everyEngineIsAHandler(t, f)
	for _, d := range handlers() {
		t.Run(d.name, func(t *testing.T) {
			for _, a := range attempts() {
				if a.spelled == "" {
					a.spelled = a.tool
				}
				if d.through != "" && f.isDenied(t, d.through, a.who) {
					continue
				}
				if d.background && a.code == toolroom.CodeApprovalRequired {
					defer f.decline(t, a.tool)()
					a.code = toolroom.CodeApprovalDeclined
				}
				after := f.lastSequence(t)
				worked := d.call(t, f, a)
				got := f.receiptAfter(t, after, a.tool)
				if worked != (a.code == "") {
					t.Errorf("%s: the handler reports success: %v", a.name, worked)
				}
				if got.Error == nil && a.code != "" || got.Error != nil && got.Error.Code != a.code {
					t.Errorf("%s: the receipt has the error %v, want %q", a.name, got.Error, a.code)
				}
				if got.Surface != d.surface || got.Identity.Agent != a.who.Agent || got.Identity.Provider != a.who.Provider || got.Identity.Skill != a.who.Skill {
					t.Errorf("%s: the receipt is of %+v via %s", a.name, got.Identity, got.Surface)
				}
				f.wantDecision(t, a, got)
			}
		})
	}
}

// decline declines the next approval of a tool. The returned function waits for that.
func (f *fixture) decline(t *testing.T, tool string) (wait func()) {
	var done sync.WaitGroup
	done.Go(func() {
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			pending, err := f.room.Approvals(t.Context(), toolroom.ApprovalPending)
			if err != nil {
				t.Error(err)
				return
			}
			for _, p := range pending {
				if p.Tool == tool {
					if _, err := f.room.Answer(t.Context(), p.ID, toolroom.Answer{By: "ann"}); err != nil {
						t.Error(err)
					}
					return
				}
			}
		}
		t.Errorf("%s asked nobody", tool)
	})
	return done.Wait
}

func (f *fixture) isDenied(t *testing.T, tool string, who toolroom.Identity) bool {
	t.Helper()
	decision, err := f.room.Explain(t.Context(), tool, who, nil)
	if err != nil {
		t.Fatal(err)
	}
	return decision.Effect == toolroom.VerdictDeny
}

// wantDecision compares a receipt with the explanation of the same call.
func (f *fixture) wantDecision(t *testing.T, a attempt, got *toolroom.Receipt) {
	t.Helper()
	if got.Decision != a.effect || !strings.Contains(got.Rule, a.rule) {
		t.Errorf("%s: the receipt says %s by %s, want %s by %s", a.name, got.Decision, got.Rule, a.effect, a.rule)
	}
	if a.effect == "" {
		return // no decision was made
	}
	explained, err := f.room.Explain(t.Context(), a.spelled, a.who, json.RawMessage(a.arguments))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(explained.Steps, got.Layers, cmpopts.IgnoreFields(toolroom.PolicyStep{}, "CLIHint")); diff != "" || got.Rule != explained.Rule || got.Isolation != explained.Isolation {
		t.Errorf("%s: the receipt differs from the explanation (-explain +receipt):\n%s", a.name, diff)
	}
}

func TestEveryListShowsTheSame(t *testing.T) {
	t.Parallel()
	f := serve(t)
	for _, who := range []toolroom.Identity{{}, {Agent: "fast"}, {Provider: "ollama"}, {Skill: "reader"}, {Skill: "raeder"}, {Agent: "fast", Provider: "ollama"}} {
		var want []string
		for _, id := range toolIDs() {
			decision, err := f.room.Explain(t.Context(), id, who, nil)
			if err != nil {
				t.Fatal(err)
			}
			// A rule that depends on the call, such as on an elevation, hides no tool.
			denied := slices.ContainsFunc(decision.Steps, func(s toolroom.PolicyStep) bool {
				return s.Effect == toolroom.VerdictDeny && s.Layer != policy.SensitiveLayer
			})
			if !denied {
				want = append(want, id)
			}
		}
		for _, l := range lists() {
			if diff := cmp.Diff(want, withoutBuiltins(l.list(t, f, who))); diff != "" {
				t.Errorf("%s for %+v (-explain +list):\n%s", l.name, who, diff)
			}
		}
	}
}

func toolIDs() []string {
	return []string{"gate:unlock", "issues:close", "notes:drop", "pages:fetch", "relay:call", "term:exec", "term:spawn", "window:open"}
}

// withoutBuiltins removes the built-in tools.
func withoutBuiltins(ids []string) []string {
	var out []string
	for _, id := range ids {
		if slices.Contains(toolIDs(), id) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// command is the input of the test's tools.
type command struct {
	Command string `json:"command"`
}

// relayedCall is a call that a tool makes.
type relayedCall struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

// openRoom opens a room with the test's tools, for the server and for each command.
func openRoom(ctx context.Context, o app.Options) (*app.App, error) {
	r, err := app.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, id := range toolIDs() {
		tool := toolroom.Tool{ID: toolroom.MustParseID(id), Description: "A tool of the test."}
		switch id {
		case "relay:call":
			err = app.RegisterTool(r, tool, func(ctx context.Context, in relayedCall) (bool, error) {
				return r.Run(ctx, toolroom.Call{Tool: in.Tool, Arguments: toolroom.Args(in.Arguments).JSON()}).Error == nil, nil
			})
		case "window:open":
			tool.Aliases = []string{"page:visit"}
			fallthrough
		default:
			err = app.RegisterTool(r, tool, func(_ context.Context, in command) (string, error) { return "did " + in.Command, nil })
		}
		if err != nil {
			r.Close()
			return nil, err
		}
	}
	return r, nil
}

func serve(t *testing.T) *fixture {
	t.Helper()
	return serveWith(t, configText)
}

func serveWith(t *testing.T, config string) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir()}
	if err := os.WriteFile(f.config(), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	installEngines(t, filepath.Join(f.dir, "home"))
	cache, err := engineCache()
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Join(f.dir, "home"), 0o700), os.Symlink(cache, filepath.Join(f.dir, "home", "cache")))
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := openRoom(t.Context(), app.Options{Home: filepath.Join(f.dir, "home"), ConfigFile: f.config(), Helper: self, Guest: guestOf(self)})
	if err != nil {
		t.Fatal(err)
	}
	f.room, f.self = r, self
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- server.Serve(ctx, r, server.Options{Version: "test", Started: func(at net.Addr) { started <- "http://" + at.String() }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	select {
	case f.url = <-started:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return f
}

func (f *fixture) config() string { return filepath.Join(f.dir, "toolroom.yaml") }

// lastSequence returns the sequence number of the newest receipt.
func (f *fixture) lastSequence(t *testing.T) int64 {
	t.Helper()
	list, err := f.room.Receipts(t.Context(), toolroom.ReceiptQuery{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		return toolroom.ReceiptsFromStart
	}
	return list[0].Seq
}

// receiptAfter waits for the one receipt of a tool after a sequence number.
func (f *fixture) receiptAfter(t *testing.T, after int64, tool string) *toolroom.Receipt {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		list, err := f.room.Receipts(t.Context(), toolroom.ReceiptQuery{AfterSeq: after, Tool: tool})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > 1 {
			for _, r := range list {
				t.Logf("after %d: %d %s %s %s, parent %q, error %v", after, r.Seq, r.Tool, r.Surface, r.Started.Format(time.StampMilli), r.Parent, r.Error)
			}
			t.Fatalf("%d receipts of one call", len(list))
		}
		if len(list) == 1 {
			return list[0]
		}
	}
	t.Fatalf("no receipt of %s", tool)
	return nil
}

// command runs a command and returns its exit code and output.
func (f *fixture) command(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := cli.Program{
		In: strings.NewReader(""), Out: &stdout, Err: &stderr,
		Home: filepath.Join(f.dir, "home"), Config: f.config(), Dir: f.dir, UserConfig: f.dir, UserHome: f.dir, User: "ann", Version: "test",
		Open: func(ctx context.Context, o app.Options) (*app.App, error) {
			o.Helper, o.Guest = f.self, guestOf(f.self)
			return openRoom(ctx, o)
		},
	}
	return p.Run(t.Context(), args), stdout.String()
}

// post sends a request as who and returns the status and the body.
func (f *fixture) post(t *testing.T, who toolroom.Identity, path, body string) (int, []byte) {
	t.Helper()
	return f.request(t, http.MethodPost, who, path, body)
}

func (f *fixture) request(t *testing.T, method string, who toolroom.Identity, path, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	actAs(req, who)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, answer.Bytes()
}

func actAs(req *http.Request, who toolroom.Identity) {
	for name, value := range map[string]string{"Toolroom-Agent": who.Agent, "Toolroom-Provider": who.Provider, "Toolroom-Skill": who.Skill} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
}
