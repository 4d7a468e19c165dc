package run_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

func withRules(t *testing.T, rules policy.Rules) func(*run.Options) {
	t.Helper()
	layers, err := policy.Compile(policy.Config{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *run.Options) { o.Policy = layers }
}

func TestARuleAboutEffectsJudgesTheCallAndHidesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, withRules(t, policy.Rules{Deny: []string{"effect:file.write:/etc/**", "effect:command:rm"}}))
	var ran atomic.Int64
	count := func(context.Context, *source.Request) (*source.Output, error) {
		ran.Add(1)
		return &source.Output{Value: json.RawMessage("1")}, nil
	}
	write := tool("disk:put")
	write.Effects = []toolroom.Effect{{Kind: toolroom.EffectFile, Mode: "write", Target: "{to}"}}
	b.add(write, count)
	b.add(tool("renamed:thing"), count)
	for id, arguments := range map[string]string{
		"disk:put":      `{"to": "/srv/../etc/hosts"}`,
		"renamed:thing": `{"command": "sudo  bash -c 'rm  -rf /'"}`,
	} {
		if _, err := b.Catalog.Resolve(id, b.Visible(toolroom.Identity{})); err != nil {
			t.Fatalf("%s is hidden: %v", id, err)
		}
		r := b.Run(t.Context(), toolroom.Call{Tool: id, Arguments: json.RawMessage(arguments)})
		if toolroom.CodeOf(r.Err()) != toolroom.CodeDenied || r.Status != toolroom.StatusDenied || r.Effects != toolroom.EffectsNone {
			t.Errorf("%s: %s, %v", id, r.Status, r.Error)
		}
		if !strings.Contains(r.Error.Message, "because it") {
			t.Errorf("the message does not say what the call would do: %s", r.Error.Message)
		}
	}
	if ran.Load() != 0 {
		t.Errorf("%d calls ran", ran.Load())
	}
	if r := b.Run(t.Context(), toolroom.Call{Tool: "disk:put", Arguments: json.RawMessage(`{"to": "/srv/data"}`)}); !r.OK() {
		t.Errorf("a harmless call: %v", r.Error)
	}
}

func TestReceiptsAndQuestionsSayWhatACallWouldDoWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	b := newBench(t, withRules(t, policy.Rules{Confirm: []string{"effect:send"}}), func(o *run.Options) {
		o.Secrets = knowing("hunter2")
	})
	post := tool("web:post")
	post.Sensitive = []string{"/token"}
	post.Effects = []toolroom.Effect{
		{Kind: toolroom.EffectHost, Mode: "post", Target: "api.example.com:443"},
		{Kind: toolroom.EffectFile, Mode: "read", Target: "{file}"},
		{Kind: toolroom.EffectSpend, Target: "{token}"},
	}
	b.add(post, value("1"))
	r := b.Run(t.Context(), toolroom.Call{Tool: "web:post", Arguments: json.RawMessage(`{"file": "/x/hunter2", "token": "s3cr3t"}`)})
	if toolroom.CodeOf(r.Err()) != toolroom.CodeApprovalRequired {
		t.Fatalf("%v", r.Error)
	}
	got := b.receipts.list[0].Expected
	want := []toolroom.Effect{
		{Kind: toolroom.EffectHost, Mode: "post", Target: "api.example.com:443"},
		{Kind: toolroom.EffectSend, Target: "api.example.com:443"},
		{Kind: toolroom.EffectFile, Mode: "read", Target: "/x/[secret s/v]"},
		{Kind: toolroom.EffectSpend},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if reason := r.Error.Message; !strings.Contains(reason, "because of what the call would do") || strings.Contains(reason, "hunter2") || strings.Contains(reason, "s3cr3t") {
		t.Errorf("the question is %q", reason)
	}
}

func TestASkillIsHeldToItsFilesAndHostsAtEveryCall(t *testing.T) {
	t.Parallel()
	tools := []string{"disk.*"}
	skills, err := policy.Compile(policy.Config{Skills: map[string]policy.Skill{"notes": {Permissions: &policy.Permissions{
		Tools: &tools, FS: policy.FSPermissions{Read: []string{"/srv/**"}, Write: []string{"/srv/notes/**"}},
		Net: []policy.NetPermission{{Host: "api.example.com", Ports: []int{443}}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(o *run.Options) { o.Policy = skills })
	put := tool("disk:put")
	put.Effects = []toolroom.Effect{
		{Kind: toolroom.EffectFile, Mode: "read", Target: "{from}"},
		{Kind: toolroom.EffectFile, Mode: "write", Target: "{to}"},
		{Kind: toolroom.EffectHost, Mode: "post", Target: "{host}"},
	}
	b.add(put, value("1"))
	for arguments, limit := range map[string]string{
		`{"from": "/srv/a", "to": "/srv/notes/a", "host": "api.example.com:443"}`:           "",
		`{"from": "/etc/passwd", "to": "/srv/notes/a", "host": "api.example.com:443"}`:      "fs.read",
		`{"from": "/srv/a", "to": "/srv/notes/../../etc/x", "host": "api.example.com:443"}`: "fs.write",
		`{"from": "/srv/a", "to": "/srv/notes/a", "host": "evil.example:443"}`:              "net",
		`{"from": "/srv/a", "to": "/srv/notes/a", "host": {"port": 443}}`:                   "net",
	} {
		r := b.Run(t.Context(), toolroom.Call{Tool: "disk:put", Identity: toolroom.Identity{Skill: "notes"}, Arguments: json.RawMessage(arguments)})
		if (limit == "") != r.OK() || limit != "" && !strings.Contains(r.Error.Message, "tools.skills.notes."+limit) {
			t.Errorf("%s: %v, want %q", arguments, r.Error, limit)
		}
	}
}
