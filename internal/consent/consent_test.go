package consent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/consent"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) consent.File {
	t.Helper()
	f, _, err := consent.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTheConfigAndWhatItNamesAreTrustedTogether(t *testing.T) {
	t.Parallel()
	dir, home := t.TempDir(), filepath.Join(t.TempDir(), "home")
	path := filepath.Join(dir, "toolroom.yaml")
	named := map[string]string{"rules.cedar": "permit(principal, action, resource);", "skill.json": `{"permissions": {}}`, "api.json": "{}"}
	for name, text := range named {
		write(t, filepath.Join(dir, name), text)
	}
	const text = "policy: {rules: [rules.cedar]}\ntools: {skills: {s: {manifest: skill.json}}}\nsources:\n  api: {openapi: {spec: api.json}}\n  late: {openapi: {spec: late.json}}\n"
	write(t, path, text)
	store := consent.Open(home)
	var untrusted *consent.Untrusted
	if err := store.Check(read(t, path)); !errors.As(err, &untrusted) || toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Fatalf("before: %v", err)
	}
	if err := store.Trust(read(t, path)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(store.Path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the record: %v, %v", info.Mode(), err)
	}
	if err := store.Check(read(t, path)); err != nil {
		t.Errorf("after: %v", err)
	}
	named["late.json"] = "" // is created later
	for name, before := range named {
		file := filepath.Join(dir, name)
		if before != "" {
			if err := store.CheckNamed(path, file, []byte(before)); err != nil {
				t.Errorf("%s as it was: %v", name, err)
			}
		}
		write(t, file, before+" ")
		if err := store.Check(read(t, path)); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s changed: %v", name, err)
		}
		if err := store.CheckNamed(path, file, []byte(before+" ")); err == nil {
			t.Errorf("%s changed, and its content is accepted", name)
		}
		if before == "" {
			os.Remove(file)
		} else {
			write(t, file, before)
		}
	}
	if err := store.CheckNamed(path, filepath.Join(dir, "other"), nil); err == nil {
		t.Error("a file that the config does not name is accepted")
	}
	write(t, path, text+"# a comment\n")
	if err := store.Check(read(t, path)); err == nil || !strings.Contains(err.Error(), "Only comments") {
		t.Errorf("a comment: %v", err)
	}
	// The same text in another folder is another config.
	elsewhere := filepath.Join(t.TempDir(), "toolroom.yaml")
	write(t, elsewhere, text)
	if err := store.Check(read(t, elsewhere)); err == nil {
		t.Error("the same text elsewhere is trusted")
	}
	if was, err := store.Revoke(path); !was || err != nil {
		t.Errorf("revoke: %v, %v", was, err)
	}
	write(t, path, text)
	if err := store.Check(read(t, path)); err == nil {
		t.Error("a revoked config is trusted")
	}
}

func TestTheSummaryHasNoSecretsAndAllThatRuns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "toolroom.yaml")
	write(t, path, `
sources:
  a: {mcp: {command: node, args: [s.js, --token, hunter2hunter2, "--api-key=hunter2hunter2"], env: {LD_PRELOAD: ./x.so, API_KEY: hunter2hunter2}}}
  b: {cli: {command: ./run.sh, cwd: sub}}
  c: {mcp: {url: "https://user:hunter2@c.example.com/mcp?key=hunter2", headers: {Authorization: Bearer hunter2hunter2}}}
  d: {disabled: true, mcp: {command: never}}
secrets: {stores: {s: {command: {argv: [get-secret, "{name}"]}}}}
approvals: {webhooks: [{name: w, url: "https://hook.example.com/x", secret: "secret://w/key"}]}
tools: {allow: ["a:*"]}
`)
	s := read(t, path).Summary
	all := strings.Join(append(append(append([]string{}, s.Starts...), s.Hosts...), s.Rules...), "\n")
	if strings.Contains(all, "hunter2") {
		t.Errorf("a secret is shown:\n%s", all)
	}
	for _, want := range []string{
		`a: API_KEY="(hidden)" LD_PRELOAD=./x.so node s.js --token "(hidden)" "--api-key=(hidden)"`, "b: ./run.sh (in sub)",
		`secrets.s: get-secret "{name}"`, "sources.c.mcp.url: https://c.example.com/mcp", "https://hook.example.com/x", "tools.allow: a:*",
		"sources.d.disabled: true", "sources.d.mcp.command: never",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
	if strings.Contains(strings.Join(s.Starts, "\n"), "never") {
		t.Error("a disabled source is said to start")
	}
}

func TestAChangedKeyIsShownOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "toolroom.yaml")
	store := consent.Open(filepath.Join(t.TempDir(), "home"))
	write(t, path, "sources:\n  a: {mcp: {command: npm, args: [start]}}\n  b: {mcp: {url: https://one.example.com/mcp}}\n  gone: {mcp: {command: old}}\n")
	if err := store.Trust(read(t, path)); err != nil {
		t.Fatal(err)
	}
	write(t, path, "sources:\n  a: {mcp: {command: sh, args: [run]}}\n  b: {mcp: {url: https://two.example.com/mcp}}\n  new: {mcp: {command: other}}\n")
	var untrusted *consent.Untrusted
	if err := store.Check(read(t, path)); !errors.As(err, &untrusted) {
		t.Fatal(err)
	}
	const want = `
New: it would start:
  new: other
Changed: it would start:
  a: npm start → sh run
Changed: it would connect to:
  sources.b.mcp.url: https://one.example.com/mcp → https://two.example.com/mcp
Gone: start:
  gone: old`
	if got := untrusted.Describe(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
