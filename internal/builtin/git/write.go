package git

import (
	"context"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/source"
)

// AddArgs are the arguments of git:add.
type AddArgs struct {
	Path  string   `json:"path,omitempty" jsonschema:"folder of the repository"`
	Files []string `json:"files,omitempty" jsonschema:"files and folders to stage"`
	All   bool     `json:"all,omitempty" jsonschema:"stage every change, also new and deleted files"`
}

func (g *git) add() builtin.Tool {
	return builtin.MustTool(builtin.Spec[AddArgs, Status]{
		Tool:      tool("add", "Stage changes", "Stage files: add them to the next Git commit. Returns the new status.", false, map[string]any{"all": true}),
		Arguments: withPath(nil),
		Predict:   func(_ *source.Request, in AddArgs) []toolroom.Effect { return g.effects(in.Path, "add", ".git") },
		Run: func(ctx context.Context, req *source.Request, in AddArgs) (Status, []toolroom.Content, error) {
			if len(in.Files) == 0 && !in.All {
				return Status{}, nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "neither files nor all is set").WithHint("set all=true to stage every change")
			}
			args := []string{"add", "--all", "--"}
			if len(in.Files) > 0 {
				args = append(args, in.Files...)
			} else {
				args = append(args, ".")
			}
			if _, err := g.runChanging(ctx, req, in.Path, nil, args...); err != nil {
				return Status{}, nil, err
			}
			out, err := g.runReadOnly(ctx, req, in.Path, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all")
			s := parseStatus(out)
			return s, builtin.Text(s.text()), err
		},
	})
}

// CommitArgs are the arguments of git:commit.
type CommitArgs struct {
	Path    string `json:"path,omitempty" jsonschema:"folder of the repository"`
	Message string `json:"message" jsonschema:"message of the commit; its first line is the subject"`
	All     bool   `json:"all,omitempty" jsonschema:"also commit changes of known files that are not staged"`
}

// author returns the author of commits: the one in the repository's configuration, else the
// operator's.
func (g *git) author(ctx context.Context, req *source.Request, repo string) (name, email string) {
	name, email = g.shell.Author(ctx)
	out, err := g.runReadOnly(ctx, req, repo, "config", "--null", "--get-regexp", `^user\.(name|email)$`)
	if err != nil {
		return name, email // it sets none; what else is wrong, the commit says
	}
	for entry := range strings.SplitSeq(out.Stdout, "\x00") {
		switch key, value, _ := strings.Cut(entry, "\n"); {
		case value == "":
		case key == "user.name":
			name = value
		case key == "user.email":
			email = value
		}
	}
	return name, email
}

func (g *git) commit() builtin.Tool {
	return builtin.MustTool(builtin.Spec[CommitArgs, Commit]{
		Tool:      tool("commit", "Make a commit", "Commit the staged changes: make a Git commit with a message. Hooks do not run.", false, map[string]any{"message": "Correct the greeting", "all": true}),
		Arguments: withPath(map[string]builtin.Property{"message": {"minLength": 1}}),
		Predict:   func(_ *source.Request, in CommitArgs) []toolroom.Effect { return g.effects(in.Path, "commit", ".git") },
		Run: func(ctx context.Context, req *source.Request, in CommitArgs) (Commit, []toolroom.Content, error) {
			env := map[string]string{}
			name, email := g.author(ctx, req, in.Path)
			for _, who := range []string{"AUTHOR", "COMMITTER"} {
				env["GIT_"+who+"_NAME"], env["GIT_"+who+"_EMAIL"] = name, email
			}
			args := []string{"commit", "--no-verify", "--cleanup=strip", "--message=" + in.Message}
			if in.All {
				args = append(args, "--all")
			}
			out, err := g.runChanging(ctx, req, in.Path, env, args...)
			if err != nil {
				if strings.Contains(out.Stdout, "nothing to commit") || strings.Contains(out.Stdout, "no changes added") || strings.Contains(out.Stdout, "nothing added") {
					err = toolroom.Errorf(toolroom.CodeConflict, "no changes are staged").WithHint("stage them: git:add%s all=true", pathArgument(in.Path))
				}
				return Commit{}, nil, err
			}
			head, err := g.runReadOnly(ctx, req, in.Path, append([]string{"log", "--max-count=1"}, commitFormat...)...)
			if err != nil {
				return Commit{}, nil, err
			}
			commits, err := parseCommits(head)
			if err != nil || len(commits) == 0 {
				return Commit{}, nil, err
			}
			return commits[0], builtin.Text("Committed " + commits[0].line()), nil
		},
	})
}

// BranchArgs are the arguments of git:branch.
type BranchArgs struct {
	Path     string `json:"path,omitempty" jsonschema:"folder of the repository"`
	Name     string `json:"name,omitempty" jsonschema:"a branch to create or check out; without a name the branches are listed"`
	Create   bool   `json:"create,omitempty" jsonschema:"create the branch"`
	Start    string `json:"start,omitempty" jsonschema:"commit or branch at which a new branch begins"`
	Checkout bool   `json:"checkout,omitempty" jsonschema:"switch the working folder to the branch"`
}

// BranchResult is the value of git:branch.
type BranchResult struct {
	Current  string   `json:"current" jsonschema:"the current branch"`
	Branches []Branch `json:"branches" jsonschema:"all branches"`
}

// Branch is one branch.
type Branch struct {
	Name    string `json:"name" jsonschema:"name of the branch"`
	Commit  string `json:"commit" jsonschema:"its last commit"`
	Subject string `json:"subject" jsonschema:"first line of the commit's message"`
	Remote  bool   `json:"remote,omitempty" jsonschema:"it is a copy of a remote branch"`
}

func (g *git) branch() builtin.Tool {
	return builtin.MustTool(builtin.Spec[BranchArgs, BranchResult]{
		Tool:      tool("branch", "Git branches", "List the branches of a Git repository, create a new branch, or switch to another branch.", false, map[string]any{"name": "topic", "create": true, "checkout": true}),
		Arguments: withPath(map[string]builtin.Property{"name": {"pattern": refPattern}, "start": {"pattern": refPattern}}),
		Predict: func(_ *source.Request, in BranchArgs) []toolroom.Effect {
			switch {
			case in.Checkout:
				return g.effects(in.Path, "switch", ".git", "")
			case in.Create:
				return g.effects(in.Path, "branch", ".git")
			default:
				return g.effects(in.Path, "branch")
			}
		},
		Run: func(ctx context.Context, req *source.Request, in BranchArgs) (BranchResult, []toolroom.Content, error) {
			if err := g.switchTo(ctx, req, in); err != nil {
				return BranchResult{}, nil, err
			}
			out, err := g.runReadOnly(ctx, req, in.Path, "for-each-ref", "--format=%(HEAD)%00%(refname)%00%(objectname)%00%(subject)", "refs/heads", "refs/remotes")
			r := parseBranches(out.Stdout)
			var text strings.Builder
			for _, b := range r.Branches {
				mark := " "
				if b.Name == r.Current {
					mark = "*"
				}
				fmt.Fprintf(&text, "%s %s  %.10s  %s\n", mark, b.Name, b.Commit, b.Subject)
			}
			return r, builtin.Text(text.String()), err
		},
	})
}

// switchTo creates the branch, checks it out, or both.
func (g *git) switchTo(ctx context.Context, req *source.Request, in BranchArgs) error {
	if in.Name == "" {
		if in.Create || in.Checkout {
			return toolroom.Errorf(toolroom.CodeInvalidArguments, "there is no name")
		}
		return nil
	}
	if !in.Create && !in.Checkout {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "set create, checkout, or both for the branch %s", in.Name)
	}
	if in.Create {
		args := []string{"branch", "--no-track", "--end-of-options", in.Name}
		if in.Start != "" {
			args = append(args, in.Start)
		}
		if _, err := g.runChanging(ctx, req, in.Path, nil, args...); err != nil {
			return err
		}
	}
	if in.Checkout {
		_, err := g.runChanging(ctx, req, in.Path, nil, "switch", "--no-guess", "--end-of-options", in.Name)
		return err
	}
	return nil
}

func parseBranches(text string) BranchResult {
	r := BranchResult{Branches: []Branch{}}
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		if len(f) != 4 || strings.HasSuffix(f[1], "/HEAD") {
			continue
		}
		name, local := strings.CutPrefix(f[1], "refs/heads/")
		if !local {
			name = strings.TrimPrefix(f[1], "refs/remotes/")
		}
		r.Branches = append(r.Branches, Branch{name, f[2], f[3], !local})
		if f[0] == "*" {
			r.Current = name
		}
	}
	return r
}
