package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/internal/token"
)

type scheduled struct {
	ID, Next string
	Runs     int
	Last     *struct{ Call, Status, Problem string }
}

func (w *workshop) schedule(who toolroom.Identity, args map[string]any) scheduled {
	w.t.Helper()
	r := w.Run(w.t.Context(), toolroom.Call{Tool: "cron:create", Arguments: toolroom.Args(args).JSON(), Identity: who})
	if !r.OK() {
		w.t.Fatal(r.Error)
	}
	var s scheduled
	if err := r.Decode(&s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *workshop) schedules(who toolroom.Identity) []scheduled {
	w.t.Helper()
	r := w.Run(w.t.Context(), toolroom.Call{Tool: "cron:list", Identity: who})
	var list struct{ Schedules []scheduled }
	if err := r.Decode(&list); err != nil {
		w.t.Fatal(err, r.Error)
	}
	return list.Schedules
}

// receiptOf waits for the receipt of a call.
func (w *workshop) receiptOf(call string) *toolroom.Receipt {
	w.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if rec, err := w.Receipt(w.t.Context(), call); err == nil {
			return rec
		}
	}
	w.t.Fatalf("call %s has no receipt", call)
	return nil
}

func later() string { return time.Now().AddDate(1, 0, 0).UTC().Format("2006-01-02T15:04") }

// A schedule outlives its process. Its missed run is made by the next one, as the identity
// that made it, and only if policy still permits it.
func TestAScheduleOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	ann := toolroom.Identity{Subject: "ann", Agent: "fast"}
	for _, deny := range []bool{false, true} {
		base := t.TempDir()
		start := func(config string) *workshop {
			file := filepath.Join(base, "toolroom.yaml")
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			w := &workshop{t: t, dir: base}
			r, err := app.Open(t.Context(), app.Options{Home: filepath.Join(base, "home"), Workspace: base, ConfigFile: file})
			if err != nil {
				t.Fatal(err)
			}
			w.App = r
			return w
		}
		w := start("{}")
		due := time.Now().Add(2 * time.Second).UTC()
		s := w.schedule(ann, map[string]any{
			"schedule": due.Format(time.RFC3339), "tool": "memory.append", "arguments": map[string]any{"namespace": "n", "content": "it was time"},
		})
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Until(due.Add(time.Second)))
		config := "{}"
		if deny {
			config = `tools: {agents: {fast: {deny: ["memory.append"]}}}`
		}
		w = start(config)
		w.Start(context.Background())
		rec := w.receiptOf(s.ID + "_1")
		if rec.Surface != "cron" || rec.Session != s.ID || rec.Identity.Subject != "ann" || rec.Identity.Agent != "fast" || rec.Tool != "memory:append" {
			t.Errorf("the receipt is %+v", rec)
		}
		if (rec.Status == toolroom.StatusDenied) != deny {
			t.Errorf("denied today: %v, and the call is %s", deny, rec.Status)
		}
		if r := w.Run(t.Context(), toolroom.Call{Tool: "memory:read", Arguments: json.RawMessage(`{"namespace":"n"}`), Identity: ann}); r.OK() == deny {
			t.Errorf("denied today: %v, and it wrote %s", deny, r.Text())
		}
		if list := w.schedules(ann); len(list) != 1 || list[0].Runs != 1 || list[0].Next != "" {
			t.Errorf("got %+v", list)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCronThroughThePipeline(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "tools: {identities: {bob: {deny: [\"memory.*\"]}}}\nbuiltin: {cron: {timezone: Asia/Tokyo}}")
	ann, bob := toolroom.Identity{Subject: "ann"}, toolroom.Identity{Subject: "bob"}
	note := map[string]any{"namespace": "n", "content": "x"}
	s := w.schedule(ann, map[string]any{"schedule": "0 9 * * *", "tool": "memory:append", "arguments": note})
	if !strings.HasSuffix(s.Next, "T09:00:00+09:00") {
		t.Errorf("the config's zone is not used: %s", s.Next)
	}
	w.Start(context.Background())
	for _, tt := range []struct {
		name string
		who  toolroom.Identity
		tool string
		args map[string]any
		code toolroom.Code
	}{
		{"an unknown tool", ann, "cron:create", map[string]any{"schedule": "@daily", "tool": "no:such"}, toolroom.CodeToolNotFound},
		{"wrong arguments", ann, "cron:create", map[string]any{"schedule": "@daily", "tool": "memory:append", "arguments": map[string]any{"namespace": 1}}, toolroom.CodeInvalidArguments},
		{"no object", ann, "cron:create", map[string]any{"schedule": "@daily", "tool": "memory:append", "arguments": "x"}, toolroom.CodeInvalidArguments},
		{"a denied tool", bob, "cron:create", map[string]any{"schedule": "@daily", "tool": "memory:append", "arguments": note}, toolroom.CodeDenied},
		{"no schedule", ann, "cron:create", map[string]any{"schedule": "soon", "tool": "memory:list"}, toolroom.CodeInvalidArguments},
		{"a time that has passed", ann, "cron:create", map[string]any{"schedule": "2020-01-01T00:00", "tool": "memory:list"}, toolroom.CodeInvalidArguments},
		{"a schedule", ann, "cron:create", map[string]any{"schedule": "@daily", "tool": "cron:create", "arguments": map[string]any{"schedule": "@daily", "tool": "memory:list"}}, toolroom.CodeInvalidArguments},
		{"a trigger", ann, "cron:create", map[string]any{"schedule": "@daily", "tool": "cron:trigger", "arguments": map[string]any{"id": "cron_1"}}, toolroom.CodeInvalidArguments},
		{"every second", ann, "cron:create", map[string]any{"schedule": "@every 1s", "tool": "memory:list"}, toolroom.CodeInvalidArguments},
		{"a path as zone", ann, "cron:create", map[string]any{"schedule": "@daily", "timezone": "../../../etc/hosts", "tool": "memory:list"}, toolroom.CodeInvalidArguments},
		{"another's trigger", bob, "cron:trigger", map[string]any{"id": s.ID}, toolroom.CodeNotFound},
		{"another's delete", bob, "cron:delete", map[string]any{"id": s.ID}, toolroom.CodeNotFound},
		{"hostile id", ann, "cron:delete", map[string]any{"id": "' OR 1=1 --"}, toolroom.CodeNotFound},
	} {
		r := w.Run(t.Context(), toolroom.Call{Tool: tt.tool, Arguments: toolroom.Args(tt.args).JSON(), Identity: tt.who})
		if r.OK() || r.Error.Code != tt.code {
			t.Errorf("%s: %+v", tt.name, r.Error)
		}
	}
	if list := w.schedules(bob); len(list) != 0 {
		t.Errorf("bob sees %+v", list)
	}
	var triggered struct{ Call string }
	r := w.Run(t.Context(), toolroom.Call{Tool: "cron:trigger", Arguments: toolroom.Args{"id": s.ID}.JSON(), Identity: ann})
	if err := r.Decode(&triggered); err != nil {
		t.Fatal(err, r.Error)
	}
	if rec := w.receiptOf(triggered.Call); rec.Status != toolroom.StatusOK || rec.Identity.Subject != "ann" {
		t.Errorf("got %+v", rec)
	}
	if r := w.Run(t.Context(), toolroom.Call{Tool: "cron:delete", Arguments: toolroom.Args{"id": s.ID}.JSON(), Identity: ann}); !r.OK() || len(w.schedules(ann)) != 0 {
		t.Errorf("got %+v", r.Error)
	}
}

// A scheduled call that schedules or triggers calls would make more and more of them.
func TestAScheduledCallCannotScheduleCalls(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	type in struct{ Tool, ID string }
	if err := app.Register(w.App, "relay:call", "Call another tool.", func(ctx context.Context, in in) (string, error) {
		args := toolroom.Args{"id": in.ID}
		if in.Tool == "cron:create" {
			args = toolroom.Args{"schedule": "@hourly", "tool": "memory:list"}
		}
		r := w.Run(ctx, toolroom.Call{Tool: in.Tool, Arguments: args.JSON()})
		if r.Error != nil {
			return "", r.Error
		}
		return "done", nil
	}); err != nil {
		t.Fatal(err)
	}
	w.Start(context.Background())
	trigger := func(s scheduled) *toolroom.Receipt {
		var triggered struct{ Call string }
		if err := w.call("cron:trigger", map[string]any{"id": s.ID}).Decode(&triggered); err != nil {
			t.Fatal(err)
		}
		return w.receiptOf(triggered.Call)
	}
	other := w.schedule(toolroom.Identity{}, map[string]any{"schedule": later(), "tool": "memory:list"})
	for _, args := range []map[string]any{
		{"tool": "relay:call", "arguments": map[string]any{"Tool": "cron:create", "ID": ""}},
		{"tool": "relay:call", "arguments": map[string]any{"Tool": "cron:trigger", "ID": other.ID}},
	} {
		args["schedule"] = later()
		if rec := trigger(w.schedule(toolroom.Identity{}, args)); rec.Error == nil || rec.Error.Code != toolroom.CodeDenied {
			t.Errorf("%v: %+v", args, rec)
		}
	}
	if list := w.schedules(toolroom.Identity{}); len(list) != 3 || slices.ContainsFunc(list, func(s scheduled) bool { return s.ID == other.ID && s.Runs > 0 }) {
		t.Errorf("got %+v", list)
	}
}

// A schedule of an identity whose token was revoked makes no calls, until there is one with
// the same groups again.
func TestASchedulesIdentityNeedsAToken(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	store, err := sqlite.Open(t.Context(), filepath.Join(filepath.Dir(w.dir), "home", "toolroom.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	issue := func(groups ...string) token.Token {
		_, made, err := token.Create(t.Context(), store, token.Options{Subject: "ann", Groups: groups})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	first, who := issue("dev"), toolroom.Identity{Subject: "ann", Groups: []string{"dev"}}
	s := w.schedule(who, map[string]any{"schedule": later(), "tool": "memory:list"})
	trigger := func() toolroom.Code {
		return toolroom.CodeOf(w.Run(t.Context(), toolroom.Call{Tool: "cron:trigger", Arguments: toolroom.Args{"id": s.ID}.JSON(), Identity: who}).Err())
	}
	if err := store.RevokeToken(t.Context(), first.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := trigger(); got != toolroom.CodeDenied {
		t.Errorf("with a revoked token: %q", got)
	}
	issue("ops")
	if got := trigger(); got != toolroom.CodeDenied {
		t.Errorf("with a token of other groups: %q", got)
	}
	issue("dev")
	if got := trigger(); got != "" {
		t.Errorf("with a new token: %q", got)
	}
}

// What the maker of a schedule has read taints the calls of the schedule.
func TestAScheduleKeepsTheLabelsOfItsMaker(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "policy: {taint: deny}")
	if err := app.RegisterTool(w.App, toolroom.Tool{ID: toolroom.MustParseID("diary:read"), Description: "Read."}, func(context.Context, struct{}) (string, error) { return "private", nil }); err != nil {
		t.Fatal(err)
	}
	if r := w.Run(t.Context(), toolroom.Call{Tool: "web:fetch", Arguments: toolroom.Args{"url": w.site}.JSON(), Session: "s"}); !r.OK() {
		t.Fatal(r.Error)
	}
	r := w.Run(t.Context(), toolroom.Call{Tool: "cron:create", Arguments: toolroom.Args{"schedule": later(), "tool": "memory:list"}.JSON(), Session: "s"})
	var s scheduled
	if err := r.Decode(&s); err != nil {
		t.Fatal(err, r.Error)
	}
	w.Start(context.Background())
	var triggered struct{ Call string }
	if err := w.call("cron:trigger", map[string]any{"id": s.ID}).Decode(&triggered); err != nil {
		t.Fatal(err)
	}
	if rec := w.receiptOf(triggered.Call); !slices.Contains(rec.Reach, "untrusted from web:fetch") {
		t.Errorf("the labels are %v", fmt.Sprint(rec.Reach))
	}
}
