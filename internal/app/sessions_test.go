package app_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin/system"
)

func (w *workshop) inSession(who toolroom.Identity, session, tool string, args toolroom.Args) *toolroom.Result {
	return w.Run(w.t.Context(), toolroom.Call{Tool: tool, Arguments: args.JSON(), Identity: who, Session: session})
}

func decoded[T any](t *testing.T, r *toolroom.Result) T {
	t.Helper()
	var v T
	if !r.OK() {
		t.Fatalf("%+v", r.Error)
	}
	if err := r.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSessionsShowTheCallersCallsAndNobodyElses(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	ann, agent, bob := toolroom.Identity{Subject: "ann"}, toolroom.Identity{Subject: "ann", Agent: "a"}, toolroom.Identity{Subject: "bob"}
	for _, query := range []string{"first", "second", "third"} {
		w.inSession(ann, "talk", "memory:search", toolroom.Args{"query": query})
	}
	w.inSession(agent, "talk", "memory:list", toolroom.Args{})
	w.inSession(bob, "talk", "memory:search", toolroom.Args{"query": "of bob"})
	w.inSession(ann, "talk", "file:read", toolroom.Args{"path": "missing"})

	page := decoded[system.History](t, w.inSession(ann, "", "sessions:history", toolroom.Args{"id": "talk", "limit": 2}))
	if len(page.Calls) != 2 || page.Calls[0].Tool != "file:read" || page.Calls[0].Error == "" || page.Calls[1].Tool != "memory:list" || page.Next == 0 {
		t.Errorf("%+v", page)
	}
	rest := decoded[system.History](t, w.inSession(ann, "", "sessions:history", toolroom.Args{"id": "talk", "before": page.Next}))
	if len(rest.Calls) != 3 || string(rest.Calls[2].Arguments) != `{"query":"first"}` || rest.Next != 0 {
		t.Errorf("%+v", rest)
	}
	for name, tt := range map[string]struct {
		who  toolroom.Identity
		want []string
	}{"bob": {bob, []string{"memory:search"}}, "an agent of ann": {agent, []string{"memory:list"}}} {
		var got []string
		for _, e := range decoded[system.History](t, w.inSession(tt.who, "talk", "sessions:history", toolroom.Args{})).Calls {
			got = append(got, e.Tool)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s sees %v, want %v", name, got, tt.want)
		}
	}
	list := decoded[system.Sessions](t, w.inSession(ann, "", "sessions:list", toolroom.Args{}))
	if len(list.Sessions) != 1 || list.Sessions[0].ID != "talk" || list.Sessions[0].Calls != 6 {
		t.Errorf("%+v", list)
	}
	for id, code := range map[string]toolroom.Code{"none": toolroom.CodeNotFound, "": toolroom.CodeInvalidArguments} {
		args := toolroom.Args{}
		if id != "" {
			args["id"] = id
		}
		if r := w.inSession(ann, "", "sessions:history", args); r.OK() || r.Error.Code != code {
			t.Errorf("%q: %+v", id, r.Error)
		}
	}
}

func TestSessionsKeepVariablesUntilTheyAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	made := decoded[system.Session](t, w.call("sessions:create", map[string]any{}))
	run := func(session, code string) *toolroom.Result {
		return w.call("code:execute", map[string]any{"language": "javascript", "code": code, "session": session})
	}
	if r := run(made.ID, "const x = 42"); !r.OK() {
		t.Fatal(r.Error)
	}
	if r := w.call("sessions:create", map[string]any{"id": made.ID}); r.OK() || r.Error.Code != toolroom.CodeConflict {
		t.Errorf("a session was made twice: %+v", r.Error)
	}
	decoded[system.Session](t, w.call("sessions:create", map[string]any{"id": "copy", "from": made.ID}))
	if r := run("copy", "x"); !r.OK() || !strings.Contains(r.Text(), "42") {
		t.Errorf("%+v %s", r.Error, r.Text())
	}
	for _, one := range decoded[system.Sessions](t, w.call("sessions:list", map[string]any{})).Sessions {
		if one.Language != "javascript" || one.Calls != 1 || one.Runs == 0 || one.Expires == nil {
			t.Errorf("%+v", one)
		}
	}
	history := decoded[system.History](t, w.call("sessions:history", map[string]any{"id": "copy"}))
	var args struct{ Code string }
	if len(history.Calls) != 1 || json.Unmarshal(history.Calls[0].Arguments, &args) != nil || args.Code != "x" {
		t.Errorf("%+v", history)
	}
	if r := w.as("another", "sessions:delete", map[string]any{"id": "copy"}); r.OK() {
		t.Error("another identity may delete the session")
	}
	decoded[system.SessionDeleted](t, w.call("sessions:delete", map[string]any{"id": "copy"}))
	if r := run("copy", "x"); r.OK() {
		t.Error("a variable outlived its session")
	}
}

func TestTheHistoryOfASessionBringsItsTaintLabels(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "policy: {taint: confirm}")
	w.inSession(toolroom.Identity{}, "talk", "web:fetch", toolroom.Args{"url": w.site})
	w.inSession(toolroom.Identity{}, "other", "sessions:history", toolroom.Args{"id": "talk"})
	r := w.inSession(toolroom.Identity{}, "other", "memory:list", toolroom.Args{})
	rec, err := w.Receipt(t.Context(), r.Call)
	if err != nil || !slices.Contains(rec.Reach, "untrusted from web:fetch") {
		t.Errorf("%v %v", rec.Reach, err)
	}
}
