// Package git provides the built-in tools for Git repositories. They run the program git
// where shell:exec runs commands, with hooks and monitors off, and return structured results.
package git

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/shell"
	"github.com/toolroom/toolroom/internal/effects"
	"github.com/toolroom/toolroom/source"
)

// Pack returns the tools, which run git with s. If missing is not nil, they return it.
func Pack(s *shell.Shell, missing *toolroom.Error) *builtin.Pack {
	g := &git{shell: s}
	return &builtin.Pack{
		Name: "git", Dir: s.Dir(), Missing: missing, Isolation: s.Isolation,
		Tools: []builtin.Tool{g.status(), g.diff(), g.log(), g.show(), g.blame(), g.add(), g.commit(), g.branch()},
	}
}

type git struct {
	shell *shell.Shell
}

// flags disable the programs that a repository could make git run.
var flags = []string{
	"--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "-c", "core.pager=cat",
	"-c", "core.editor=true", "-c", "commit.gpgSign=false", "-c", "tag.gpgSign=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
	"-c", "color.ui=false", "-c", "core.quotePath=false", "-c", "submodule.recurse=false", "-c", "diff.ignoreSubmodules=dirty",
	"-c", "log.showSignature=false", "-c", "gpg.program=false", "-c", "gpg.ssh.program=false", "-c", "gpg.x509.program=false", "-c", "gpg.openpgp.program=false",
}

// environment returns variables that make git ask nothing, fetch nothing and treat file names
// literally.
func environment() map[string]string {
	return map[string]string{
		"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_LITERAL_PATHSPECS": "1", "GIT_CONFIG_NOSYSTEM": "1", "GIT_ASKPASS": "true",
		"GIT_EDITOR": "true", "LC_ALL": "C.UTF-8", "GIT_NO_LAZY_FETCH": "1",
		// It overrides what a repository says of protocols, also of those of remote helpers.
		"GIT_ALLOW_PROTOCOL": "none",
	}
}

// pathArgument returns the argument path for a hint that suggests a call in the same
// repository.
func pathArgument(path string) string {
	if path == "" {
		return ""
	}
	return fmt.Sprintf(" path=%q", path)
}

// runReadOnly runs git in a repository without write access. It returns an error if git fails.
func (g *git) runReadOnly(ctx context.Context, req *source.Request, repo string, args ...string) (shell.ExecResult, error) {
	env := environment()
	if _, err := g.disablePrograms(ctx, req, repo, env); err != nil {
		return shell.ExecResult{}, err
	}
	return g.run(ctx, req, shell.Program{Dir: repo, Env: env, ReadOnly: true}, args...)
}

// runChanging runs git in a repository with additional variables. It returns an error if the
// repository has filters, because they are disabled, and without them git would record wrong
// content.
func (g *git) runChanging(ctx context.Context, req *source.Request, repo string, more map[string]string, args ...string) (shell.ExecResult, error) {
	env := environment()
	maps.Copy(env, more)
	filter, err := g.disablePrograms(ctx, req, repo, env)
	if err != nil {
		return shell.ExecResult{}, err
	}
	if filter != "" {
		return shell.ExecResult{}, toolroom.Errorf(toolroom.CodeUnsupported, "the repository sets %s, a program that git would run on files", filter).
			WithHint("run git with shell:exec, where the repository's own programs may run")
	}
	return g.run(ctx, req, shell.Program{Dir: repo, Env: env}, args...)
}

// disablePrograms adds variables to env that disable the programs in the repository's
// configuration. It returns the key of a filter if there is one. Reading the configuration runs
// no program.
func (g *git) disablePrograms(ctx context.Context, req *source.Request, repo string, env map[string]string) (filter string, err error) {
	out, err := g.run(ctx, req, shell.Program{Dir: repo, Env: maps.Clone(env), ReadOnly: true}, "config", "--list", "--name-only", "-z")
	if err != nil {
		return "", err
	}
	if out.Dropped > 0 {
		return "", toolroom.Errorf(toolroom.CodeResourceLimit, "the configuration of the repository is too long: %d bytes more than are read", out.Dropped)
	}
	n := 0
	for key := range strings.SplitSeq(out.Stdout, "\x00") {
		section, rest, _ := strings.Cut(key, ".")
		at := strings.LastIndexByte(rest, '.')
		if at < 0 {
			continue
		}
		value := ""
		switch name := rest[at+1:]; section {
		case "filter":
			if name == "required" {
				value = "false"
			} else if filter == "" {
				filter = key
			}
		case "diff", "merge":
			if name != "command" && name != "textconv" && name != "driver" {
				continue
			}
		default:
			continue
		}
		env["GIT_CONFIG_KEY_"+strconv.Itoa(n)], env["GIT_CONFIG_VALUE_"+strconv.Itoa(n)] = key, value
		n++
	}
	env["GIT_CONFIG_COUNT"] = strconv.Itoa(n)
	return filter, nil
}

func (g *git) run(ctx context.Context, req *source.Request, p shell.Program, args ...string) (shell.ExecResult, error) {
	p.Argv, p.Offline = append(append([]string{"git"}, flags...), args...), true
	out, err := g.shell.Run(ctx, req, p)
	if toolroom.CodeOf(err) == toolroom.CodeNotFound && strings.Contains(err.Error(), "program") {
		return out, toolroom.Errorf(toolroom.CodeUnsupported, "git is not installed on this machine").WithHint("install it, for example: apt-get install git")
	}
	if err != nil || out.ExitCode == 0 {
		return out, err
	}
	text := strings.TrimSpace(strings.TrimPrefix(out.Stderr+"\n"+out.Stdout, "fatal: "))
	e := toolroom.Errorf(toolroom.CodeExecutionFailed, "git %s: %s", args[0], first(text, 2000))
	switch {
	case strings.Contains(text, "not a git repository"):
		e.Code, e.Message = toolroom.CodeNotFound, "there is no Git repository in "+out.Cwd
		return out, e.WithHint("set path to the repository; its top folder must be inside the folders that tools may use (builtin.file.roots)")
	case strings.Contains(text, "unknown revision"), strings.Contains(text, "bad revision"), strings.Contains(text, "Not a valid object name"):
		e.Code = toolroom.CodeNotFound
		return out, e.WithHint("list the branches: git:branch, or the commits: git:log")
	case strings.Contains(text, "does not have any commits yet"):
		e.Code = toolroom.CodeNotFound
		return out, e.WithHint("make the first commit: git:add, then git:commit")
	}
	return out, e
}

func first(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Repo names a repository in arguments.
type Repo struct {
	Path string `json:"path,omitempty" jsonschema:"folder of the repository"`
}

func tool(name, title, description string, readOnly bool, example map[string]any) toolroom.Tool {
	return builtin.Define("git:"+name, "git", title, description, builtin.Hints(readOnly, false, false), example)
}

// withPath adds the schema of the argument path to more.
func withPath(more map[string]builtin.Property) map[string]builtin.Property {
	all := map[string]builtin.Property{"path": {"default": "."}}
	maps.Copy(all, more)
	return all
}

// refPattern excludes what git would read as an option.
const refPattern = `^[^-\s][^\s]*$`

// effects returns the predicted effects of a call: it runs git, and reads or also changes the
// repository.
func (g *git) effects(repo, line string, changes ...string) []toolroom.Effect {
	dir := repo
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(g.shell.Dir(), dir)
	}
	dir = filepath.FromSlash(effects.WorkTree(filepath.ToSlash(dir)))
	all := []toolroom.Effect{{Kind: toolroom.EffectCommand, Target: "git " + line}, {Kind: toolroom.EffectFile, Mode: "read", Target: dir}}
	for _, name := range changes {
		all = append(all, toolroom.Effect{Kind: toolroom.EffectFile, Mode: "write", Target: filepath.Join(dir, name)})
	}
	return all
}
