package policy

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
)

func TestAnElevationIsCheckedAndCompleted(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	whole := Elevation{Subject: "ann", By: "bob", Tools: []string{"pay.*"}, Ended: now}
	for name, tt := range map[string]struct {
		change func(*Elevation)
		lasts  time.Duration
		want   time.Duration // zero if it is refused
	}{
		"by default":   {func(*Elevation) {}, 0, 15 * time.Minute},
		"for a second": {func(*Elevation) {}, 1, 1},
		"the longest":  {func(*Elevation) {}, MaxElevation, MaxElevation},
		"longer":       {func(*Elevation) {}, MaxElevation + 1, 0},
		"backwards":    {func(*Elevation) {}, -1, 0},
		"of nobody":    {func(e *Elevation) { e.Subject = "" }, 0, 0},
		"by nobody":    {func(e *Elevation) { e.By = "" }, 0, 0},
		"of no tool":   {func(e *Elevation) { e.Tools = []string{"pay"} }, 0, 0},
		"of any tool":  {func(e *Elevation) { e.Tools = nil }, 0, 15 * time.Minute},
	} {
		e := whole
		tt.change(&e)
		got, err := NewElevation(Config{}, e, tt.lasts, now)
		if tt.want == 0 {
			if toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.HasPrefix(got.ID, "elv_") || !got.Created.Equal(now) || got.Expires.Sub(now) != tt.want || !got.Active(now) || got.Active(now.Add(tt.want)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	p := compile(t, Config{Sensitive: Sensitive{Tools: []string{"pay.*"}}}).WithElevations(broken{})
	d := decide(p, tool("pay:out"), toolroom.Identity{Subject: "ann"})
	if d.Effect != toolroom.VerdictDeny || !strings.Contains(d.Rule, "could not be read") {
		t.Errorf("%+v", d)
	}
}

// rulesOf is TextRules with one step.
type rulesOf struct {
	step    toolroom.PolicyStep
	settled bool
	asked   *[]*Context
}

func (r rulesOf) View(*toolroom.Tool, toolroom.Identity) TextRulesView { return r }
func (r rulesOf) IsConstant() bool                                     { return r.settled }
func (r rulesOf) Decide(call *Context) toolroom.PolicyStep {
	*r.asked = append(*r.asked, call)
	if call == nil && !r.settled {
		return toolroom.PolicyStep{Layer: "policy.rules", Effect: toolroom.VerdictAllow, Rule: "list"}
	}
	return r.step
}

func TestWrittenRulesAreOneStepOfListsAndCalls(t *testing.T) {
	t.Parallel()
	deny := toolroom.PolicyStep{Layer: "policy.rules", Effect: toolroom.VerdictDeny, Rule: "r", Isolation: "vm", Engine: "js"}
	for _, settled := range []bool{false, true} {
		var asked []*Context
		p := compile(t, Config{Rules: Rules{Confirm: []string{"a.*"}}}).With(Parts{TextRules: rulesOf{deny, settled, &asked}})
		list := p.Decide(t.Context(), Request{Tool: tool("a:b")})
		if want := toolroom.VerdictDeny; (list.Effect == want) != settled {
			t.Errorf("settled %v, a list: %+v", settled, list)
		}
		call := &Context{Surface: "cli"}
		for range 2 {
			got := p.Decide(t.Context(), Request{Tool: tool("a:b"), Call: call})
			if got.Effect != toolroom.VerdictDeny || got.Rule != "r" || got.Isolation != "vm" || got.Engine != "js" || len(got.Steps) != 2 {
				t.Errorf("settled %v: %+v", settled, got)
			}
		}
		if judged := slices.Contains(asked, call); judged == settled {
			t.Errorf("settled %v: the call was judged: %v", settled, judged)
		}
	}
}

func TestAListLeavesOutWhatTheDenylistRefusesAlways(t *testing.T) {
	t.Parallel()
	p := compile(t, Config{Denylist: []Denial{{Tool: "x.y", Reason: "it is gone"}, {Tool: "x.z", ArgsPattern: "^rm", Reason: "no"}, {Tool: "x.", ArgsPattern: "("}}[:2]})
	list := p.Decide(t.Context(), Request{Tool: tool("x:y")})
	if list.Effect != toolroom.VerdictDeny || list.Rule != `tools.immutable_denylist[0]: "x.y": it is gone` || len(list.Steps) != 2 {
		t.Errorf("%+v", list)
	}
	if list := p.Decide(t.Context(), Request{Tool: tool("x:z")}); list.Effect != toolroom.VerdictAllow {
		t.Errorf("%+v", list)
	}
	got := p.Decide(t.Context(), Request{Tool: tool("x:z"), Call: arguments(`{"a":"rm"}`)})
	if got.Rule != `tools.immutable_denylist[1]: "x.z" with arguments like "^rm": no` {
		t.Errorf("%+v", got)
	}
	if got := p.Decide(t.Context(), Request{Tool: tool("x:z"), Call: &Context{}}); got.Effect != toolroom.VerdictAllow {
		t.Errorf("without known arguments: %+v", got)
	}
	_, err := Compile(Config{Denylist: []Denial{{Tool: "nothing", ArgsPattern: "("}, {Tool: "nothing"}}})
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("%v", err)
	}
}

func TestEveryPartOfArgumentsIsTried(t *testing.T) {
	t.Parallel()
	for text, pattern := range map[string]string{
		`{"n": 12345}`:                     `^12345$`,
		`{"key": 1}`:                       `^key$`,
		`{"a": [{"b": "deep"}]}`:           `^deep$`,
		`{"a": ["rm", "-rf"]}`:             `^rm -rf$`,
		`{"a": ["alone"]}`:                 `^alone$`,
		`{"a": " rm"}`:                     `^rm$`,
		`{"a": "rm "}`:                     `^rm$`,
		`{"a": "rm\u007f"}`:                `^rm$`,
		`{"a": "r\u0001m"}`:                `^rm$`,
		`{"a": "rm  -rf"}`:                 `^rm -rf$`,
		`{"a": "\uff52\uff4d"}`:            `^rm$`,
		`{"a": "\u00a0rm\u200b"}`:          `^rm$`,
		`{"a": "rm\t-rf\n/"}`:              `^rm -rf /$`,
		`{"a": true, "b": [1, null, "x"]}`: `^x$`,
	} {
		p := compile(t, Config{Denylist: []Denial{{Tool: "*", ArgsPattern: pattern}}})
		if got := p.Decide(t.Context(), Request{Tool: tool("a:b"), Call: arguments(text)}); got.Effect != toolroom.VerdictDeny {
			t.Errorf("%s passes %s", text, pattern)
		}
		if got := p.Decide(t.Context(), Request{Tool: tool("a:b"), Call: arguments(`{"a": "none"}`)}); got.Effect != toolroom.VerdictAllow {
			t.Errorf("%s refuses all", pattern)
		}
	}
	for text, want := range map[string]string{"": "", " ": "", "a b": "a b", "a": "a", "~": "~", "\x7f": "", " a  b ": "a b"} {
		if got := normalizeText(text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestAHintIsForALayerThatNarrows(t *testing.T) {
	t.Parallel()
	p := compile(t, Config{Rules: Rules{Deny: []string{"a.b"}}, Agents: map[string]Rules{"coder": {Deny: []string{"a.c"}}}})
	for name, hinted := range map[string]bool{"a:b": false, "a:c": true} {
		d := decide(p, tool(name), toolroom.Identity{Agent: "codr"})
		if d.Effect != toolroom.VerdictDeny || strings.Contains(d.Hint, "coder") != hinted {
			t.Errorf("%s: %+v", name, d)
		}
	}
	// Where no agent is configured, none is unknown.
	p = compile(t, Config{Providers: map[string]Rules{"p": {Deny: []string{"a.c"}}}})
	if d := decide(p, tool("a:c"), toolroom.Identity{Agent: "x", Provider: "p"}); d.Effect != toolroom.VerdictDeny || d.Hint != "" {
		t.Errorf("%+v", d)
	}
}

// Decisions are cached by the caller, and callers choose some of their names.
func TestDecisionsOfCallersWithLongNamesAreNotMixedUp(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxKeyLength)
	p := compile(t, Config{Agents: map[string]Rules{long: {Deny: []string{"a.b"}}, "free": {}}, Sets: map[string]Rules{"s": {Deny: []string{"a.b"}}}})
	for range 2 {
		for agent, want := range map[string]toolroom.Verdict{long: toolroom.VerdictDeny, "free": toolroom.VerdictAllow, "": toolroom.VerdictAllow} {
			if d := decide(p, tool("a:b"), toolroom.Identity{Agent: agent}); d.Effect != want {
				t.Errorf("%.5s: %+v", agent, d)
			}
		}
		if d := decide(p, tool("a:b"), toolroom.Identity{Agent: "free", Set: "s"}); d.Effect != toolroom.VerdictDeny {
			t.Errorf("%+v", d)
		}
	}
	one := tool("a:b")
	for _, who := range []toolroom.Identity{{Subject: "ann"}, {Agent: long}, {Skill: long}, {Groups: []string{long}}} {
		decide(p, one, who)
	}
	kept := p.views.Keys()
	if slices.ContainsFunc(kept, func(v viewKey) bool { return len(v.agent)+len(v.skill)+len(v.groups) > maxKeyLength }) {
		t.Error("a long name is kept")
	}
	if !slices.ContainsFunc(kept, func(v viewKey) bool { return v.tool == one && v.subject == "ann" }) {
		t.Error("the decision of a caller is not kept")
	}
}

func TestAStepAfterThePolicyOnlyNarrows(t *testing.T) {
	t.Parallel()
	step := func(v toolroom.Verdict) toolroom.PolicyStep {
		return toolroom.PolicyStep{Effect: v, Rule: "after", Hint: "do", Isolation: "vm", Engine: "js"}
	}
	for _, tt := range []struct{ before, after, want toolroom.Verdict }{
		{toolroom.VerdictAllow, toolroom.VerdictAllow, toolroom.VerdictAllow},
		{toolroom.VerdictAllow, toolroom.VerdictConfirm, toolroom.VerdictConfirm},
		{toolroom.VerdictAllow, toolroom.VerdictDeny, toolroom.VerdictDeny},
		{toolroom.VerdictConfirm, toolroom.VerdictAllow, toolroom.VerdictConfirm},
		{toolroom.VerdictConfirm, toolroom.VerdictDeny, toolroom.VerdictDeny},
		{toolroom.VerdictDeny, toolroom.VerdictConfirm, toolroom.VerdictDeny},
	} {
		before := Decision{Effect: tt.before, Rule: "before", Isolation: "process", Steps: make([]toolroom.PolicyStep, 1, 5)}
		got := before.WithStep(step(tt.after))
		rule := "after"
		if tt.want == tt.before {
			rule = "before"
		}
		if got.Effect != tt.want || got.Rule != rule || (got.Hint == "do") != (rule == "after") || got.Isolation != "vm" || got.Engine != "js" || len(got.Steps) != 2 {
			t.Errorf("%s then %s: %+v", tt.before, tt.after, got)
		}
		if other := before.WithStep(toolroom.PolicyStep{Rule: "other"}); got.Steps[1].Rule != "after" || other.Steps[1].Rule != "other" {
			t.Error("two decisions share their steps")
		}
	}
}

func TestARuleSaysHowItHolds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"host:x": "the only way out", "command:rm": "cannot be started", "file.write:/a": "read-only", "file.delete:/a": "cannot be removed", "file:/a": "are not there", "file.read:/a": "are not there",
	} {
		e := EffectRule{Enforced: true, effect: effect(t, text)}
		if !strings.Contains(e.Describe(), want) {
			t.Errorf("%s: %s", text, e.Describe())
		}
		e.Enforced = false
		if !strings.Contains(e.Describe(), "judged only") {
			t.Errorf("%s: %s", text, e.Describe())
		}
	}
}

func TestPatternsThatNameToolsAreListedWithTheirKeys(t *testing.T) {
	t.Parallel()
	p := compile(t, Config{
		Rules:    Rules{Profile: "own", Allow: []string{"a.b", "*", "tag:x"}, Deny: []string{"mcp:c:d", "group:fs"}, Autonomy: Conservative},
		Profiles: map[string][]string{"own": {"p.q"}},
		Hooks:    []Hook{{Tool: "h.*", Action: ActionLog}},
	})
	var got []string
	for _, n := range p.NamedPatterns() {
		namespace, name, ok := n.Pattern.NameGlobs()
		if !ok {
			t.Errorf("%s names nothing", n.Key)
		}
		got = append(got, n.Key+" "+namespace+" "+name)
	}
	want := []string{"tools.allow[0] a b", "tools.deny[0] c d", "tools.hooks[0].tool h *", "tools.profiles.own[0] p q"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for text, ok := range map[string]bool{"*": false, "tag:x": false, "a.b": true, "a.*": true} {
		pattern, err := ParsePattern(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if namespace, name, named := pattern.NameGlobs(); named != ok || !ok && namespace+name != "" {
			t.Errorf("%s: %q, %q, %v", text, namespace, name, named)
		}
	}
	pattern, err := ParsePattern("a.b", nil)
	if err != nil {
		t.Fatal(err)
	}
	if pattern.MatchesAny([]toolroom.Tool{*tool("x:y")}) || !pattern.MatchesAny([]toolroom.Tool{*tool("x:y"), *tool("A:B")}) {
		t.Error("MayMatch")
	}
}

func TestPatternsAtTheirEdges(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"az.AZ09", "0.9", "a-b.c_d", "mcp:tool"} {
		if _, err := ParsePattern(text, nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"a.`", "a.{", "a.@", "a.[", "a./", "a.;", "a:b:c"} {
		if _, err := ParsePattern(text, nil); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	aliased := tool("a:b")
	aliased.Aliases = []string{"not an alias", "other.name", "alone"}
	for text, want := range map[string]bool{"a.b": true, "A.B": true, "other.name": true, "Other.Name": true, "a.alone": true, "other.alone": false, "x.y": false} {
		pattern, err := ParsePattern(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if pattern.MatchesAnySpelling(aliased) != want {
			t.Errorf("%s catches: %v", text, !want)
		}
	}
	for text, want := range map[string]string{"*": "true", "*.*": "true", "*.x": `resource.name == "x"`, "x.*": `resource.namespace == "x"`, "mcp:*:*": `resource in Source::"mcp" && true`} {
		pattern, err := ParsePattern(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := pattern.Cedar(); got != want {
			t.Errorf("%s is %s", text, got)
		}
	}
	if _, err := ParseIsolation("moon"); err == nil || !strings.Contains(err.Error(), "there are container, ") {
		t.Errorf("%v", err)
	}
	for address, want := range map[string]bool{"h:80": true, "h": false, "h:x": false} {
		if _, _, ok := splitHostPort(address); ok != want {
			t.Errorf("%s: %v", address, ok)
		}
	}
	if host, _, ok := splitHostPort("no-port"); host != "" || ok {
		t.Errorf("%q", host)
	}
}

func TestProgramsOfALine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{"rm -rf": {"rm"}, "/usr/bin/rm x": {"/usr/bin/rm", "rm"}, "": {""}, "…/rm": {""}, "./": {"./", "."}} {
		if got := ProgramNames(line); !slices.Equal(got, want) {
			t.Errorf("%q: %q", line, got)
		}
	}
	for _, tt := range []struct {
		pattern, effect string
		want            bool
	}{
		{"effect:sql.drop:users", "sql.drop:app.users", true},
		{"effect:sql.drop:app.users", "sql.drop:app.users", true},
		{"effect:sql.drop:app.users", "sql.drop:users", false},
		{"effect:sql.drop:users", "sql.drop:app.others", false},
		{"effect:file.write:/a/b/**", "file.write:/a", false},
		{"effect:file.delete:/a/b/**", "file.delete:/a", true},
		{"effect:file:/a/b/**", "file:/a", true},
		{"effect:file:/a/b/**", "file.read:/a", false},
	} {
		p, err := ParseEffectPattern(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Matches(effect(t, tt.effect)); got != tt.want {
			t.Errorf("%s of %s: %v", tt.pattern, tt.effect, got)
		}
	}
}

func TestARuleThroughGlobsFollowsLinksOnly(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"real/keys", "home/ann", "home/bob/keys", "other"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "real/keys"), filepath.Join(root, "home/ann/keys")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "other"), filepath.Join(root, "home/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "home/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		pattern, path string
		want          bool
	}{
		{"/home/*/keys/**", "/real/keys/id", true},
		{"/home/*/keys/**", "/real/other", false},
		{"/home/ann/keys/*", "/real/keys/id", true},
		{"/home/*", "/other", true},
		{"/home/*", "/real", false},
		{"/home/l*/x", "/other/x", true},
		{"/home/a*/x", "/other/x", false},
		{"/home/*/none/x", "/other/none/x", true},
		{"/none/*/x", "/other/x", false},
		{"/home/file/*", "/other/x", false},
	} {
		p, err := ParseEffectPattern("effect:file.read:" + root + tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Matches(toolroom.Effect{Kind: toolroom.EffectFile, Mode: "read", Target: root + tt.path}); got != tt.want {
			t.Errorf("%s of %s: %v", tt.pattern, tt.path, got)
		}
	}
}

func TestManifestsAreVerifiedAndBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := `{"permissions":{"tools":["a.b"]}}`
	for name, text := range map[string]string{"whole.json": whole, "largest.json": whole + strings.Repeat(" ", MaxManifest-len(whole)), "larger.json": whole + strings.Repeat(" ", MaxManifest-len(whole)+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inline := &Permissions{ToolGroups: []string{"web"}}
	skills := map[string]Skill{"w": {Manifest: "whole.json"}, "l": {Manifest: "largest.json"}, "i": {Permissions: inline}, "n": {}}
	var seen []string
	c, err := ReadManifests(Config{Skills: skills}, dir, func(path string, text []byte) error {
		seen = append(seen, filepath.Base(path)+" "+string(text[:len(whole)]))
		return nil
	})
	if err != nil || c.Skills["w"].Permissions == nil || c.Skills["l"].Permissions == nil || c.Skills["i"].Permissions != inline || c.Skills["n"].Permissions != nil {
		t.Errorf("%+v, %v", c.Skills, err)
	}
	if want := []string{"largest.json " + whole, "whole.json " + whole}; !slices.Equal(seen, want) {
		t.Errorf("verified %q", seen)
	}
	if skills["w"].Permissions != nil {
		t.Error("the config that was given has changed")
	}
	changed := errors.New("the file has changed")
	c, err = ReadManifests(Config{Skills: skills}, dir, func(string, []byte) error { return changed })
	if !errors.Is(err, changed) || c.Skills["w"].Permissions != nil {
		t.Errorf("%+v, %v", c.Skills, err)
	}
	both := &Permissions{}
	c, err = ReadManifests(Config{Skills: map[string]Skill{"large": {Manifest: "larger.json"}, "folder": {Manifest: "."}, "both": {Manifest: "whole.json", Permissions: both}}}, dir, nil)
	if err == nil || !strings.Contains(err.Error(), "more than") || strings.Count(err.Error(), "\n") != 2 || c.Skills["both"].Permissions != both {
		t.Errorf("%v", err)
	}
	if d := decide(compile(t, Config{Skills: map[string]Skill{"s": {}}}), tool("a:b"), toolroom.Identity{Skill: "s"}); d.Rule != "tools.skills.s: a skill without permissions may call nothing" {
		t.Errorf("%+v", d)
	}
	for port, good := range map[int]bool{0: false, 1: true, 65535: true, 65536: false} {
		_, err := Compile(Config{Skills: map[string]Skill{"s": {Permissions: &Permissions{Net: []NetPermission{{Host: "h", Ports: []int{port}}}}}}})
		if (err == nil) != good {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

func TestArgumentsThatAreNoObjectAreRefused(t *testing.T) {
	t.Parallel()
	p := compile(t, Config{Denylist: []Denial{{Tool: "*", ArgsPattern: "none"}}})
	for _, text := range []string{`[]`, `"x"`} {
		call := &Context{Arguments: func() (any, error) {
			var v any
			err := json.Unmarshal([]byte(text), &v)
			return v, err
		}}
		if d := p.Decide(context.Background(), Request{Tool: tool("a:b"), Call: call}); d.Effect != toolroom.VerdictDeny || !strings.Contains(d.Rule, "not a JSON object") {
			t.Errorf("%s: %+v", text, d)
		}
	}
}

// ofEnvironment denies the callers that are bound to an environment.
type ofEnvironment string

func (e ofEnvironment) View(_ *toolroom.Tool, who toolroom.Identity) TextRulesView {
	step := toolroom.PolicyStep{Layer: "policy.rules", Effect: toolroom.VerdictAllow, Rule: "r"}
	if who.Environment == string(e) {
		step.Effect = toolroom.VerdictDeny
	}
	return rulesOf{step, true, new([]*Context)}
}

func TestDecisionsAboutOneEnvironmentAreNotThoseOfAnother(t *testing.T) {
	t.Parallel()
	p := compile(t, Config{}).With(Parts{TextRules: ofEnvironment("prod")})
	x := tool("a:b")
	for _, tt := range []struct {
		environment string
		want        toolroom.Verdict
	}{{"test", toolroom.VerdictAllow}, {"prod", toolroom.VerdictDeny}, {"test", toolroom.VerdictAllow}} {
		who := toolroom.Identity{Subject: "ann", Environment: tt.environment}
		if got := p.Decide(t.Context(), Request{Tool: x, Who: who, Call: &Context{}}); got.Effect != tt.want {
			t.Errorf("bound to %s: %+v", tt.environment, got)
		}
	}
}

// ofGroup denies the callers that are not in a group.
type ofGroup string

func (g ofGroup) View(_ *toolroom.Tool, who toolroom.Identity) TextRulesView {
	step := toolroom.PolicyStep{Layer: "policy.rules", Effect: toolroom.VerdictAllow, Rule: "r"}
	if !slices.Contains(who.Groups, string(g)) {
		step.Effect = toolroom.VerdictDeny
	}
	return rulesOf{step, true, new([]*Context)}
}

func TestDecisionsAboutOneGroupAreNotThoseOfTwo(t *testing.T) {
	t.Parallel()
	p := compile(t, Config{}).With(Parts{TextRules: ofGroup("admin")})
	x := tool("a:b")
	for _, tt := range []struct {
		groups []string
		want   toolroom.Verdict
	}{{[]string{"a", "admin"}, toolroom.VerdictAllow}, {[]string{"a\x00admin"}, toolroom.VerdictDeny}, {nil, toolroom.VerdictDeny}, {[]string{"admin"}, toolroom.VerdictAllow}} {
		who := toolroom.Identity{Subject: "ann", Groups: tt.groups}
		if got := p.Decide(t.Context(), Request{Tool: x, Who: who, Call: &Context{}}); got.Effect != tt.want {
			t.Errorf("in %q: %+v", tt.groups, got)
		}
	}
}
