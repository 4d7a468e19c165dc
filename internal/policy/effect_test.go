package policy

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolroom/toolroom"
)

func effect(t testing.TB, text string) toolroom.Effect {
	t.Helper()
	e, err := toolroom.ParseEffect(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func decideEffects(d Decider, t *toolroom.Tool, who toolroom.Identity, effects []toolroom.Effect) Decision {
	return d.Decide(context.Background(), Request{Tool: t, Who: who, Call: &Context{Effects: effects}})
}

func TestEffectPatternsSelectAsDocumented(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, effect string
		want            bool
	}{
		{"effect:file.write:/etc/**", "file.write:/etc/passwd", true},
		{"effect:file.write:/etc/**", "file.write:/etc/a/b/c", true},
		{"effect:file.write:/etc/**", "file.write:/etc", true},
		{"effect:file.write:/etc/**", "file.write:/etcetera", false},
		{"effect:file.write:/etc/**", "file.read:/etc/passwd", false},
		{"effect:file.write:/etc/**", "file:/etc/passwd", true},
		{"effect:file.write:/etc/**", "file.write", true},
		{"effect:file.write:/etc/**", "file", true},
		{"effect:file:/etc/**", "file.delete:/etc/x", true},
		{"effect:file.delete:/etc/**", "file.delete:/", true},
		{"effect:file.delete:/home/*/keys/**", "file.delete:/home", true},
		{"effect:file.delete:/home/*/keys/**", "file.delete:/var", false},
		{"effect:file:/home/*/.ssh/**", "file.read:/home/ann/.ssh/id", true},
		{"effect:file:/home/*/.ssh/**", "file.read:/home/ann/x/.ssh/id", false},
		{"effect:file:**/.env", "file.read:/srv/app/.env", true},
		{"effect:file:**/.env", "file.read:/.env", true},
		{"effect:file:**/.env", "file.read:/srv/.environment", false},
		{"effect:file:/a/**/z", "file.read:/a/z", true},
		{"effect:file:/a/**/z", "file.read:/a/b/c/z", true},
		{"effect:file:/a/*.txt", "file.read:/a/b.txt", true},
		{"effect:file:/a/*.txt", "file.read:/a/b/c.txt", false},
		{"effect:send:ann@example.com", "send:ANN@Example.com", true},
		{"effect:send:Ann@Example.com", "send: ann@example.com ", true},
		{"effect:send:*@example.com", "send:ann@example.org", false},
		{"effect:destroy:prod", "destroy:Prod", true},
		{"effect:host:*.example.com", "host.get:api.example.com:443", true},
		{"effect:host:*.example.com", "host.get:example.com:443", false},
		{"effect:host:*.example.com", "host.get:evil-example.com:443", false},
		{"effect:host:example.com:443", "host.get:example.com:80", false},
		{"effect:host:10.0.0.0/8", "host.get:10.1.2.3:80", true},
		{"effect:host:loopback", "host.get:localhost:80", true},
		{"effect:host:loopback", "host.get:8.8.8.8:80", false},
		{"effect:host", "host.get:x:1", true},
		{"effect:host:*", "host.get:x:1", true},
		{"effect:host.delete", "host.get:x:1", false},
		{"effect:host.delete", "host.connect:x:1", true},
		{"effect:host.post:*.example.com", "host:api.example.com:443", true},
		{"effect:command:rm", "command:rm -rf /", true},
		{"effect:command:rm", "command:/usr/bin/rm -rf /", true},
		{"effect:command:rm", "command:rmdir x", false},
		{"effect:command:rm", "command", true},
		{"effect:command:mkfs*", "command:mkfs.ext4 /dev/sda", true},
		{"effect:command:/opt/*", "command:/opt/x/y a", true},
		{"effect:command:git push*", "command:git push --force", true},
		{"effect:command:git push*", "command:/usr/bin/git push", true},
		{"effect:command:git push*", "command:git pull", false},
		{"effect:command:git push*", "command:git … origin", true},
		{"effect:command:git push*--force*", "command:git push origin --force", true},
		{"effect:sql.drop", "sql.drop:users", true},
		{"effect:sql.drop", "sql.select:users", false},
		{"effect:sql:users", "sql.select:public.users", true},
		{"effect:sql:PUBLIC.users", "sql.select:public.users", true},
		{"effect:sql:private.users", "sql.select:public.users", false},
		{"effect:sql.drop:users", "sql", true},
		{"effect:send", "send:x:443", true},
		{"effect:send:*.example.com*", "send:a.example.com:443", true},
		{"effect:destroy", "destroy", true},
		{"effect:spend", "spend:12 EUR", true},
		{"effect:spend", "send", false},
	} {
		p, err := ParseEffectPattern(tt.pattern)
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
			continue
		}
		if got := p.Matches(effect(t, tt.effect)); got != tt.want {
			t.Errorf("%s selects %s: %v", tt.pattern, tt.effect, got)
		}
	}
}

// A call may name the file itself, or reach it through other links.
func TestARuleThroughALinkIsAboutWhereItLeads(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"real/app", "next/app"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for at, to := range map[string]string{"link": "hop", "hop": "real", "abs": dir + "/link/app", "real/up": "..", "loop": "loop", "gone": "none/there"} {
		if err := os.Symlink(to, filepath.Join(dir, at)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		pattern, effect string
		want            bool
	}{
		{"effect:file:D/link/**", "file.read:D/real/app/conf", true},
		{"effect:file:D/link/**", "file.read:D/link/app/conf", true},
		{"effect:file:D/link/**", "file.read:D/next/app/conf", false},
		{"effect:file:D/link/**", "file.read:D/really", false},
		{"effect:file:D/link", "file.read:D/real", true},
		{"effect:file:D/link/app/conf", "file.read:D/real/app/conf", true},
		{"effect:file:D/link/new/conf", "file.write:D/real/new/conf", true},
		{"effect:file:D/link/app/c*", "file.write:D/real/app/conf", true},
		{"effect:file:D/link/*/conf", "file.write:D/real/app/conf", true},
		{"effect:file:D/link/a*p/**", "file.write:D/real/app/conf", true},
		{"effect:file:D/abs/*", "file.write:D/real/app/conf", true},
		{"effect:file:D/link/up/next/**", "file.write:D/next/app/conf", true},
		{"effect:file.delete:D/link/app/conf", "file.delete:D/real", true},
		{"effect:file.delete:D/link/app/**", "file.delete:D/next", false},
		{"effect:file.write:D/link/**", "file.read:D/real/app/conf", false},
		{"effect:file:D/gone/**", "file.write:D/none/there/x", true},
		{"effect:file:D/loop/**", "file.read:D/loop/x", true},
		{"effect:file:D/loop/**", "file.read:D/real/x", false},
		{"effect:file:**/link/**", "file.read:D/real/x", false},
	} {
		p, err := ParseEffectPattern(strings.ReplaceAll(tt.pattern, "D", dir))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Matches(effect(t, strings.ReplaceAll(tt.effect, "D", dir))); got != tt.want {
			t.Errorf("%s selects %s: %v", tt.pattern, tt.effect, got)
		}
	}

	// A link that is changed counts as it is now.
	l := compile(t, Config{Rules: Rules{Deny: []string{"effect:file:" + dir + "/hop/**"}}})
	read := func(folder string) toolroom.Verdict {
		return decideEffects(l, tool("file:read"), toolroom.Identity{}, []toolroom.Effect{effect(t, "file.read:/nowhere"), effect(t, "file.read:"+filepath.Join(dir, folder, "app"))}).Effect
	}
	if real, next := read("real"), read("next"); real != toolroom.VerdictDeny || next != toolroom.VerdictAllow {
		t.Errorf("before: %s, %s", real, next)
	}
	if err := os.Remove(filepath.Join(dir, "hop")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("next", filepath.Join(dir, "hop")); err != nil {
		t.Fatal(err)
	}
	if real, next := read("real"), read("next"); real != toolroom.VerdictAllow || next != toolroom.VerdictDeny {
		t.Errorf("after: %s, %s", real, next)
	}
}

func TestEffectPatternsThatCannotMeanAnythingAreRefused(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		"effect:", "effect:files", "effect:file.burn:/x", "effect:file:etc/x", "effect:file:~/x", "effect:none", "effect:sql:drop", "effect:sql:DROP",
		"effect:host:http://x", "effect:host:127.1", "effect:command:git  push", "effect:command:", "effect:send.now",
	} {
		if _, err := Compile(Config{Rules: Rules{Deny: []string{"x.y", pattern}}}); err == nil || !strings.HasPrefix(err.Error(), "tools.deny[1]: ") {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	for _, rules := range []Rules{{Allow: []string{"effect:send"}}, {Profile: "own"}} {
		_, err := Compile(Config{Rules: rules, Profiles: map[string][]string{"own": {"effect:send"}}})
		if err == nil || !strings.Contains(err.Error(), "belongs in deny or confirm") {
			t.Errorf("%+v: %v", rules, err)
		}
	}
}

// drawEffects and drawEffectRule meet often.
var (
	drawEffects = rapid.SliceOfN(rapid.SampledFrom([]toolroom.Effect{
		{Kind: "file", Mode: "write", Target: "/etc/x"}, {Kind: "file"}, {Kind: "send"}, {Kind: "command", Target: "rm x"}, {Kind: "command"}, {Kind: "sql", Mode: "drop", Target: "t"},
	}), 0, 3)
	drawEffectRules = rapid.SliceOfN(rapid.SampledFrom([]string{"effect:file.write:/etc/**", "effect:send", "effect:command:rm", "effect:sql.drop", "effect:destroy", "a.x"}), 0, 3)
)

// Tests that share generators do not run in parallel (see drawPattern).
func TestEffectsNeverWiden(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, tool, who := drawConfig.Draw(t, "config"), drawTool.Draw(t, "tool"), drawWho.Draw(t, "who")
		c.Deny = append(c.Deny, drawEffectRules.Draw(t, "deny effects")...)
		c.Confirm = append(c.Confirm, drawEffectRules.Draw(t, "confirm effects")...)
		l := mustCompile(t, c)
		few := drawEffects.Draw(t, "effects")
		more := append(few[:len(few):len(few)], drawEffects.Draw(t, "more effects")...)
		seen, asked, again := decide(l, tool, who), decideEffects(l, tool, who, few), decideEffects(l, tool, who, more)
		if stricter(seen.Effect, asked.Effect) || stricter(asked.Effect, again.Effect) {
			t.Fatalf("%s, then %s with effects, then %s with more", seen.Effect, asked.Effect, again.Effect)
		}
		// What is not known is judged as everything of its kind.
		var unknown []toolroom.Effect
		for _, e := range more {
			unknown = append(unknown, toolroom.Effect{Kind: e.Kind})
		}
		if worst := decideEffects(l, tool, who, unknown); stricter(again.Effect, worst.Effect) {
			t.Fatalf("%s when known, %s when unknown", again.Effect, worst.Effect)
		}
	})
}

func FuzzEffectPatternsNeverPanic(f *testing.F) {
	f.Add("effect:file.write:/a/**/b/*", "file.write:/a/b/c")
	f.Add("effect:command:git push*", "command:git … x")
	f.Add("effect:host:*.x.example", "host.get:[::1]:80")
	f.Fuzz(func(_ *testing.T, pattern, target string) {
		p, err := ParseEffectPattern(pattern)
		if err != nil {
			return
		}
		for _, mode := range []string{"", "read", "delete", "get"} {
			p.Matches(toolroom.Effect{Kind: p.effect.Kind, Mode: mode, Target: target})
		}
	})
}

func BenchmarkDecideACallWithEffects(b *testing.B) {
	l := compile(b, Config{Rules: Rules{
		Deny:    []string{"effect:file.write:/etc/**", "effect:command:rm", "effect:host:*.evil.example", "effect:sql.drop"},
		Confirm: []string{"effect:command:git push*", "effect:host.delete", "effect:spend", "effect:file:**/.env"},
	}})
	effects := []toolroom.Effect{effect(b, "command:go test ./..."), effect(b, "file.write:/srv/app/out.txt"), effect(b, "host.get:api.example.com:443"), effect(b, "send:api.example.com:443")}
	t := tool("shell:exec")
	b.ReportAllocs()
	for b.Loop() {
		if decideEffects(l, t, toolroom.Identity{}, effects).Effect != toolroom.VerdictAllow {
			b.Fatal("not allowed")
		}
	}
}

// Whoever uses a folder may use what is below it, unless the rule is enforced.
func TestAFolderIsJudgedAsWhatMayBeBelowIt(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(top, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, "a", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		rule, mode, path string
		denied           bool
	}{
		{"file:T/a/b/key", "read", "/a", true},
		{"file.read:T/a/b/key", "read", "/a/b", true},
		{"file.read:T/*/b/key", "read", "", true},
		{"file.read:T/**", "read", "/a", true},
		{"file:**/.env", "read", "/a", true},
		{"file.delete:T/*/b/key", "delete", "/a", true},
		{"file:**/.env", "delete", "/a", true},
		{"file.write:T/a/b/*", "write", "/a", true},
		{"file:T/a/b/key", "", "/a", true},
		{"file.write:T/a/b/*", "read", "/a", false},
		{"file:T/b/key", "read", "/a", false},
		{"file:T/a", "read", "/a/b", false},
		{"file:**/.env", "read", "/a/file", false},
		{"file:**/.env", "write", "/a/none", false},
		{"file:**/.env", "write", "/a/file/none", true}, // it cannot be looked up
		{"file.read", "read", "/a/none", true},
		{"host:evil.example", "read", "/a", false},
	} {
		p, err := Compile(Config{Rules: Rules{Deny: []string{"effect:" + strings.ReplaceAll(tt.rule, "T", top)}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, enforced := range []bool{false, true} {
			call := &Context{Effects: []toolroom.Effect{{Kind: toolroom.EffectFile, Mode: tt.mode, Target: top + tt.path}}}
			call.Enforced = func(toolroom.Effect) bool { return enforced }
			d := p.With(Parts{}).Decide(t.Context(), Request{Tool: &toolroom.Tool{ID: toolroom.ID{Namespace: "a", Name: "b"}}, Call: call})
			literal := tt.rule == "file.read:T/**" || tt.rule == "file.read" || tt.mode == "" // these it visibly breaks
			if denied := d.Effect == toolroom.VerdictDeny; denied != (tt.denied && (!enforced || literal)) {
				t.Errorf("%s, %s of %s, enforced %v: %s", tt.rule, tt.mode, tt.path, enforced, d.Effect)
			}
		}
	}
}

func TestARuleAboutFilesIsNotAboutHostsOfSuchNames(t *testing.T) {
	t.Parallel()
	p, err := Compile(Config{Rules: Rules{Deny: []string{"effect:file:**/.env"}}})
	if err != nil {
		t.Fatal(err)
	}
	found := decideEffects(p.With(Parts{}), &toolroom.Tool{ID: toolroom.MustParseID("a:b")}, toolroom.Identity{}, []toolroom.Effect{{Kind: toolroom.EffectSend, Target: os.TempDir()}})
	if found.Effect != toolroom.VerdictAllow {
		t.Errorf("got %+v", found)
	}
}

// An enforced rule needs no denial for what is not known, and one that asks is lifted by a
// yes to what it has seen.
func TestAnEnforcedRuleLooksAtWhatIsKnown(t *testing.T) {
	t.Parallel()
	p, err := Compile(Config{Rules: Rules{Deny: []string{"effect:file:/etc/**"}, Confirm: []string{"effect:command:rm"}}})
	if err != nil {
		t.Fatal(err)
	}
	tool := &toolroom.Tool{ID: toolroom.MustParseID("shell:exec")}
	rm, etc := effect(t, "command:rm"), effect(t, "file:/etc/**")
	for _, tt := range []struct {
		enforced  bool
		effects   []string
		want      toolroom.Verdict
		forbidden []toolroom.Effect
	}{
		{true, []string{"command:ls"}, toolroom.VerdictAllow, []toolroom.Effect{etc, rm}},
		{true, []string{"command:make", "command", "file"}, toolroom.VerdictAllow, []toolroom.Effect{etc, rm}},
		{true, []string{"command:rm x", "file"}, toolroom.VerdictConfirm, []toolroom.Effect{etc}},
		{true, []string{"file.read:/etc/passwd"}, toolroom.VerdictDeny, []toolroom.Effect{rm}},
		{false, []string{"command:ls"}, toolroom.VerdictAllow, nil},
		{false, []string{"command:make", "command"}, toolroom.VerdictConfirm, nil},
		{false, []string{"command:make", "command", "file"}, toolroom.VerdictDeny, nil},
	} {
		call := &Context{}
		for _, text := range tt.effects {
			call.Effects = append(call.Effects, effect(t, text))
		}
		if tt.enforced {
			call.Enforced = func(toolroom.Effect) bool { return true }
		}
		d := p.With(Parts{}).Decide(t.Context(), Request{Tool: tool, Call: call})
		if d.Effect != tt.want || !slices.Equal(d.Forbidden(), tt.forbidden) {
			t.Errorf("%v, enforced %v: %s, %v forbidden", tt.effects, tt.enforced, d.Effect, d.Forbidden())
		}
	}
}
