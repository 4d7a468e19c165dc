//go:build linux

package git_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/builtin/git"
	"github.com/toolroom/toolroom/internal/builtin/shell"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/source"
)

// TestMain runs this binary as the init of a sandbox, if asked to.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == lockdown.InitArg {
		os.Exit(lockdown.Main())
	}
	os.Exit(m.Run())
}

type repo struct {
	t    *testing.T
	dir  string
	pack source.Source
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "init", "-q", "-b", "main", dir).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("git init: %v: %s", err, out)
		}
		t.Skipf("git init: %v: %s", err, out)
	}
	folders, err := folder.Open([]string{dir}, folder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := shell.New(shell.Options{Folders: folders, Runtime: shell.RuntimeProcess, Init: []string{self, lockdown.InitArg}, Scratch: t.TempDir()})
	if missing := s.Available(t.Context()); missing != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	r := &repo{t, dir, git.Pack(s, nil).Source()}
	t.Cleanup(func() { _ = r.pack.Close() })
	return r
}

func (r *repo) put(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o700); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) call(tool string, args map[string]any, into any) error {
	r.t.Helper()
	out, err := r.pack.Call(r.t.Context(), &source.Request{Tool: toolroom.MustParseID("git:" + tool), Arguments: builtin.Arguments(args), Emit: func(toolroom.Event) {}})
	if err != nil {
		return err
	}
	if into != nil {
		if err := json.Unmarshal(out.Value, into); err != nil {
			r.t.Fatal(err)
		}
	}
	return nil
}

func TestADaysWorkInARepository(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := r.call("log", nil, nil); toolroom.CodeOf(err) != toolroom.CodeNotFound || !strings.Contains(toolroom.AsError(err).Hint, "git:commit") {
		t.Errorf("an empty repository: %v", err)
	}
	if err := r.call("commit", map[string]any{"message": "x", "path": "."}, nil); toolroom.AsError(err).Hint != `stage them: git:add path="." all=true` {
		t.Errorf("nothing is staged: %v, hint %q", err, toolroom.AsError(err).Hint)
	}
	r.put("a file\n", "one\ntwo\n")
	r.put("b.txt", "b\n")
	var s git.Status
	must(r.call("add", map[string]any{"all": true}, &s))
	if len(s.Files) != 2 || s.Files[0].Path != "a file\n" || s.Files[0].State != "added" || !s.Files[0].Staged {
		t.Errorf("%+v", s)
	}
	var first git.Commit
	must(r.call("commit", map[string]any{"message": "First\n\nWith a body."}, &first))
	if first.Subject != "First" || first.Body != "With a body." || len(first.Hash) != 40 {
		t.Errorf("%+v", first)
	}
	if err := r.call("commit", map[string]any{"message": "Empty"}, nil); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Errorf("nothing is staged: %v", err)
	}
	r.put("a file\n", "one\n2\n")
	r.put("-rf", "a file with the name of an option\n")
	must(r.call("status", nil, &s))
	if s.Branch != "main" || s.Clean || len(s.Files) != 2 || s.Files[0].State != "modified" || s.Files[1].Path != "-rf" || s.Files[1].State != "untracked" {
		t.Errorf("%+v", s)
	}
	var d git.DiffResult
	must(r.call("diff", nil, &d))
	if !strings.Contains(d.Diff, "-two\n+2\n") || len(d.Files) != 1 || d.Files[0].Added != 1 || d.Files[0].Removed != 1 {
		t.Errorf("%+v", d)
	}
	must(r.call("branch", map[string]any{"name": "topic", "create": true, "checkout": true}, nil))
	must(r.call("add", map[string]any{"files": []string{"-rf", "a file\n"}}, nil))
	must(r.call("commit", map[string]any{"message": "Second"}, nil))
	var l git.LogResult
	must(r.call("log", map[string]any{"limit": 1}, &l))
	if len(l.Commits) != 1 || l.Commits[0].Subject != "Second" {
		t.Errorf("%+v", l)
	}
	must(r.call("log", map[string]any{"ref": "main..topic"}, &l))
	if len(l.Commits) != 1 {
		t.Errorf("%+v", l)
	}
	var shown git.ShowResult
	must(r.call("show", map[string]any{"ref": "main"}, &shown))
	if shown.Commit.Hash != first.Hash || len(shown.Files) != 2 {
		t.Errorf("%+v", shown)
	}
	var b git.BlameResult
	must(r.call("blame", map[string]any{"file": "a file\n", "from": 2}, &b))
	if len(b.Lines) != 1 || b.Lines[0].Text != "2" || b.Lines[0].Summary != "Second" || b.Lines[0].Line != 2 {
		t.Errorf("%+v", b)
	}
	var branches git.BranchResult
	must(r.call("branch", nil, &branches))
	if branches.Current != "topic" || len(branches.Branches) != 2 {
		t.Errorf("%+v", branches)
	}
	must(r.call("diff", map[string]any{"ref": "main"}, &d))
	if len(d.Files) != 2 {
		t.Errorf("%+v", d)
	}
}

// A repository that others made must not run programs of its choice.
func TestARepositoryRunsNoProgramsOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	ran := filepath.Join(r.dir, "ran")
	r.put("trap.sh", "#!/bin/sh\necho \"$0 $*\" >> "+ran+"\ncat\n")
	trap := filepath.Join(r.dir, "trap.sh")
	if err := os.MkdirAll(filepath.Join(r.dir, ".git", "hooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, hook := range []string{"pre-commit", "commit-msg", "post-commit", "post-checkout", "prepare-commit-msg", "post-index-change", "reference-transaction"} {
		r.put(".git/hooks/"+hook, "#!/bin/sh\necho "+hook+" >> "+ran+"\n")
	}
	config := "[core]\n\tfsmonitor = " + trap + "\n\tpager = " + trap + "\n\teditor = " + trap + "\n[diff]\n\texternal = " + trap + "\n[diff \"x\"]\n\ttextconv = " + trap + "\n\tcommand = " + trap +
		"\n[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = " + trap + "\n[alias]\n\tstatus = !" + trap + "\n"
	old, err := os.ReadFile(filepath.Join(r.dir, ".git", "config"))
	if err != nil {
		t.Fatal(err)
	}
	r.put(".git/config", string(old)+config)
	r.put(".gitattributes", "*.txt diff=x\n")
	r.put("a.txt", "one\n")
	for _, step := range []struct {
		tool string
		args map[string]any
	}{
		{"status", nil},
		{"add", map[string]any{"files": []string{"a.txt"}}},
		{"commit", map[string]any{"message": "x"}},
		{"branch", map[string]any{"name": "t", "create": true, "checkout": true}},
		{"log", nil},
		{"show", nil},
		{"blame", map[string]any{"file": "a.txt"}},
	} {
		if err := r.call(step.tool, step.args, nil); err != nil {
			t.Errorf("%s: %v", step.tool, err)
		}
	}
	r.put("a.txt", "two\n")
	if err := r.call("diff", nil, nil); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(ran); err == nil {
		t.Errorf("the repository ran %s", text)
	}
}

func TestWordsThatLookLikeOptionsAreNoOptions(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.put("a.txt", "one\n")
	for _, step := range []struct {
		tool string
		args map[string]any
	}{
		{"log", map[string]any{"ref": "--output=leak"}},
		{"diff", map[string]any{"ref": "--output=leak"}},
		{"show", map[string]any{"ref": "--output=leak"}},
		{"diff", map[string]any{"files": []string{"--output=leak"}}},
		{"branch", map[string]any{"name": "--edit-description", "create": true}},
	} {
		_ = r.call(step.tool, step.args, nil)
		if _, err := os.Stat(filepath.Join(r.dir, "leak")); err == nil {
			t.Errorf("%s with %v wrote a file", step.tool, step.args)
		}
	}
}

func TestAFileWithALineEndInItsNameIsOneLine(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.put("a\nb.txt", "")
	out, err := r.pack.Call(t.Context(), &source.Request{Tool: toolroom.MustParseID("git:status"), Arguments: json.RawMessage("{}"), Emit: func(toolroom.Event) {}})
	if err != nil || !strings.Contains(out.Content[0].Text, `untracked  a\nb.txt`) {
		t.Errorf("%+v, %v", out, err)
	}
}

// A repository may have an author of its own, which is not the one of other repositories.
func TestACommitHasTheAuthorOfItsRepository(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	for _, key := range []string{"user.name", "user.email"} {
		r.git("config", key, "own "+key)
	}
	r.put("a.txt", "one\n")
	r.git("add", "a.txt")
	if err := r.call("commit", map[string]any{"message": "first"}, &git.Commit{}); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(r.git("log", "-1", "--format=%an|%ae|%cn|%ce")); got != "own user.name|own user.email|own user.name|own user.email" {
		t.Error(got)
	}
}

// A repository can name programs that git runs even in commands that only read.
func TestReadingRunsNoProgramOfTheRepository(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	ran := filepath.Join(r.dir, "ran")
	trap := filepath.Join(r.dir, "trap.sh")
	r.put("trap.sh", "#!/bin/sh\necho \"$0 $*\" >> "+ran+"\ncat\n")
	r.git("config", "user.name", "a")
	r.git("config", "user.email", "a@example.com")
	r.put("a.txt", "one\n")
	r.git("add", "a.txt")
	r.git("commit", "-q", "-m", "first")
	r.git("commit", "-q", "--allow-empty", "-m", "se\x01cond")
	// A commit with the header of a signature, which gpg would check.
	signed := "tree " + r.git("rev-parse", "HEAD^{tree}") + "\nauthor a <a@example.com> 1 +0000\ncommitter a <a@example.com> 1 +0000\ngpgsig x\n\nsigned\n"
	r.put("signed", signed)
	r.git("update-ref", "refs/heads/signed", r.git("hash-object", "-t", "commit", "-w", "signed"))
	for key, value := range map[string]string{
		"log.showSignature": "true", "gpg.program": trap,
		"core.repositoryformatversion": "1", "extensions.partialClone": "evil", "remote.evil.promisor": "true", "remote.evil.url": "ext::" + trap, "protocol.ext.allow": "always",
		"filter.x.clean": trap, "filter.x.smudge": trap, "filter.x.required": "true", "diff.x.textconv": trap, "diff.x.command": trap,
	} {
		r.git("config", key, value)
	}
	r.put(".gitattributes", "*.txt filter=x diff=x\n")
	r.put("a.txt", "two\n") // of the same size, so that git compares the content
	var log git.LogResult
	if err := r.call("log", nil, &log); err != nil || len(log.Commits) != 2 || log.Commits[0].Subject != "se\x01cond" {
		t.Errorf("log: %+v, %v", log, err)
	}
	for _, step := range []struct {
		tool string
		args map[string]any
		fail bool
	}{
		{"log", map[string]any{"ref": "signed"}, false},
		{"show", map[string]any{"ref": "signed"}, false},
		{"show", map[string]any{"ref": "1234567890123456789012345678901234567890"}, true},
		{"status", nil, false},
		{"diff", nil, false},
		{"blame", map[string]any{"file": "a.txt"}, false},
		{"add", map[string]any{"all": true}, true},
		{"commit", map[string]any{"message": "x", "all": true}, true},
		{"branch", map[string]any{"name": "t", "create": true, "checkout": true}, true},
	} {
		if err := r.call(step.tool, step.args, nil); (err != nil) != step.fail {
			t.Errorf("%s %v: %v", step.tool, step.args, err)
		}
	}
	if text, err := os.ReadFile(ran); err == nil {
		t.Errorf("the repository ran %s", text)
	}
}

// git runs git as a person would, without the tools.
func (r *repo) git(args ...string) string {
	r.t.Helper()
	c := exec.Command("git", append([]string{"-C", r.dir}, args...)...)
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := c.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
