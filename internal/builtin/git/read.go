package git

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/shell"
	"github.com/toolroom/toolroom/source"
)

// Status is the value of git:status.
type Status struct {
	Branch   string `json:"branch" jsonschema:"the current branch; empty if none is checked out"`
	Commit   string `json:"commit,omitempty" jsonschema:"the current commit"`
	Upstream string `json:"upstream,omitempty" jsonschema:"the branch that this one follows"`
	Ahead    int    `json:"ahead" jsonschema:"commits that upstream does not have"`
	Behind   int    `json:"behind" jsonschema:"commits that only upstream has"`
	Clean    bool   `json:"clean" jsonschema:"nothing is changed"`
	Files    []File `json:"files" jsonschema:"changed and new files"`
	More     bool   `json:"more,omitempty" jsonschema:"more files are changed than are listed"`
}

// maxListed is the maximum number of files, or of lines of git:blame, in one value. A value
// with 100,000 could not be checked against its schema.
const maxListed = 10_000

// splitRecords returns the records of an output, each of which ends with end. If the middle of
// the output was dropped, it returns the records before it, and more is true.
func splitRecords(out shell.ExecResult, end string) (all []string, more bool) {
	text := out.Stdout
	if out.Dropped > 0 {
		text, _, _ = strings.Cut(text, "\n[… ")
		text = text[:strings.LastIndex(text, end)+len(end)]
	}
	if text == "" {
		return nil, out.Dropped > 0
	}
	return strings.Split(strings.TrimSuffix(text, end), end), out.Dropped > 0
}

// File is a changed file.
type File struct {
	Path  string `json:"path" jsonschema:"path in the repository"`
	From  string `json:"from,omitempty" jsonschema:"the old path of a renamed file"`
	State string `json:"state" jsonschema:"modified, added, deleted, renamed, copied, type changed, conflict or untracked"`
	// Staged and Unstaged report where the change is.
	Staged   bool `json:"staged" jsonschema:"the index has a change that the next commit contains"`
	Unstaged bool `json:"unstaged" jsonschema:"the working folder has a change that is not in the index"`
}

func (g *git) status() builtin.Tool {
	return builtin.MustTool(builtin.Spec[Repo, Status]{
		Tool:      tool("status", "Git status", "Show the status or state of a Git repository: branch, commits ahead and behind, and which files are uncommitted, staged, unstaged or untracked.", true, map[string]any{}),
		Arguments: withPath(nil),
		Predict:   func(_ *source.Request, in Repo) []toolroom.Effect { return g.effects(in.Path, "status") },
		Run: func(ctx context.Context, req *source.Request, in Repo) (Status, []toolroom.Content, error) {
			out, err := g.runReadOnly(ctx, req, in.Path, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all")
			if err != nil {
				return Status{}, nil, err
			}
			s := parseStatus(out)
			return s, builtin.Text(s.text()), nil
		},
	})
}

var states = map[byte]string{'M': "modified", 'T': "type changed", 'A': "added", 'D': "deleted", 'R': "renamed", 'C': "copied"}

// parseStatus reads the output of git status --porcelain=v2 --branch -z.
func parseStatus(out shell.ExecResult) Status {
	s := Status{Files: []File{}}
	records, more := splitRecords(out, "\x00")
	s.More = more
	for i := 0; i < len(records); i++ {
		if len(s.Files) == maxListed && !strings.HasPrefix(records[i], "#") {
			s.More = true
			break
		}
		kind, rest, _ := strings.Cut(records[i], " ")
		switch kind {
		case "#":
			s.parseHeader(rest)
		case "?":
			s.Files = append(s.Files, File{Path: rest, State: "untracked", Unstaged: true})
		case "u":
			if f := strings.SplitN(rest, " ", 10); len(f) == 10 {
				s.Files = append(s.Files, File{Path: f[9], State: "conflict", Unstaged: true})
			}
		case "1", "2":
			n := map[string]int{"1": 8, "2": 9}[kind]
			f := strings.SplitN(rest, " ", n)
			if len(f) != n {
				continue
			}
			x, y := f[0][0], f[0][1]
			file := File{Path: f[n-1], State: cmp.Or(states[x], states[y]), Staged: x != '.', Unstaged: y != '.'}
			if kind == "2" && i+1 < len(records) {
				i++
				file.From = records[i]
			}
			s.Files = append(s.Files, file)
		}
	}
	s.Clean = len(s.Files) == 0 && !s.More
	return s
}

func (s *Status) parseHeader(line string) {
	key, value, _ := strings.Cut(line, " ")
	switch key {
	case "branch.oid":
		if value != "(initial)" {
			s.Commit = value
		}
	case "branch.head":
		if value != "(detached)" {
			s.Branch = value
		}
	case "branch.upstream":
		s.Upstream = value
	case "branch.ab":
		_, _ = fmt.Sscanf(value, "+%d -%d", &s.Ahead, &s.Behind)
	}
}

func (s Status) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "On branch %s", cmp.Or(s.Branch, "(none)"))
	if s.Upstream != "" {
		fmt.Fprintf(&b, ", %d ahead and %d behind %s", s.Ahead, s.Behind, s.Upstream)
	}
	if s.Clean {
		b.WriteString(". Nothing is changed.")
	}
	b.WriteString("\n")
	for _, f := range s.Files {
		where := "unstaged"
		switch {
		case f.State == "untracked":
			where = ""
		case f.Staged && f.Unstaged:
			where = "staged and unstaged"
		case f.Staged:
			where = "staged"
		}
		fmt.Fprintf(&b, "%s  %s", f.State, builtin.FileName(f.Path))
		if f.From != "" {
			b.WriteString(" (was " + builtin.FileName(f.From) + ")")
		}
		if where != "" {
			b.WriteString("  " + where)
		}
		b.WriteString("\n")
	}
	if s.More {
		b.WriteString(moreFiles)
	}
	return b.String()
}

const moreFiles = "[more files are changed than are listed]\n"

// DiffArgs are the arguments of git:diff.
type DiffArgs struct {
	Path   string   `json:"path,omitempty" jsonschema:"folder of the repository"`
	Staged bool     `json:"staged,omitempty" jsonschema:"show what the next commit contains, not what is unstaged"`
	Ref    string   `json:"ref,omitempty" jsonschema:"a commit or branch to compare with, or two as main..topic"`
	Files  []string `json:"files,omitempty" jsonschema:"show these files and folders only"`
}

// DiffResult is the value of git:diff.
type DiffResult struct {
	Diff  string     `json:"diff" jsonschema:"the changes as a unified diff"`
	Files []DiffFile `json:"files" jsonschema:"the changed files"`
	More  bool       `json:"more,omitempty" jsonschema:"more files are changed than are listed"`
}

// DiffFile counts the changes of one file.
type DiffFile struct {
	Path    string `json:"path" jsonschema:"the file"`
	Added   int    `json:"added" jsonschema:"lines added"`
	Removed int    `json:"removed" jsonschema:"lines removed"`
	Binary  bool   `json:"binary,omitempty" jsonschema:"the file is not text"`
}

func (g *git) diff() builtin.Tool {
	return builtin.MustTool(builtin.Spec[DiffArgs, DiffResult]{
		Tool:      tool("diff", "Git diff", "Show what changed in a Git repository as a diff: changes since the last commit, staged changes, or the difference between two commits or branches.", true, map[string]any{"staged": true}),
		Arguments: withPath(map[string]builtin.Property{"ref": {"pattern": refPattern}}),
		Predict:   func(_ *source.Request, in DiffArgs) []toolroom.Effect { return g.effects(in.Path, "diff") },
		Run: func(ctx context.Context, req *source.Request, in DiffArgs) (DiffResult, []toolroom.Content, error) {
			args := []string{"diff", "--no-ext-diff", "--no-textconv", "--no-color"}
			if in.Staged {
				args = append(args, "--cached")
			}
			out, err := g.changes(ctx, req, in.Path, args, in.Ref, in.Files)
			text := cmp.Or(out.Diff, "There are no changes.")
			return out, builtin.Text(text), err
		},
	})
}

// changes runs a command that prints a diff twice: for the counts and for the text.
func (g *git) changes(ctx context.Context, req *source.Request, repo string, args []string, ref string, files []string) (DiffResult, error) {
	rest := []string{"--end-of-options"}
	if ref != "" {
		rest = append(rest, ref)
	}
	rest = append(append(rest, "--"), files...)
	out := DiffResult{Files: []DiffFile{}}
	numbers, err := g.runReadOnly(ctx, req, repo, append(append(args[:len(args):len(args)], "--numstat", "-z", "--no-renames"), rest...)...)
	if err != nil {
		return out, err
	}
	list, more := splitRecords(numbers, "\x00")
	out.More = more
	for _, record := range list {
		if len(out.Files) == maxListed {
			out.More = true
			break
		}
		f := strings.SplitN(strings.TrimLeft(record, "\n"), "\t", 3)
		if len(f) == 3 {
			file := DiffFile{Path: f[2], Binary: f[0] == "-"}
			file.Added, _ = strconv.Atoi(f[0]) // zero for a binary file
			file.Removed, _ = strconv.Atoi(f[1])
			out.Files = append(out.Files, file)
		}
	}
	text, err := g.runReadOnly(ctx, req, repo, append(args[:len(args):len(args)], rest...)...)
	out.Diff = text.Stdout
	return out, err
}

// LogArgs are the arguments of git:log.
type LogArgs struct {
	Path   string   `json:"path,omitempty" jsonschema:"folder of the repository"`
	Limit  int      `json:"limit,omitempty" jsonschema:"number of commits"`
	Ref    string   `json:"ref,omitempty" jsonschema:"branch or commit to begin at, or a range as main..topic"`
	Files  []string `json:"files,omitempty" jsonschema:"only commits that changed these files"`
	Author string   `json:"author,omitempty" jsonschema:"only commits of an author whose name or address contains this"`
	Since  string   `json:"since,omitempty" jsonschema:"only commits after this date, such as 2026-01-31"`
	Search string   `json:"search,omitempty" jsonschema:"only commits whose message contains this"`
}

// LogResult is the value of git:log.
type LogResult struct {
	Commits []Commit `json:"commits" jsonschema:"the commits, newest first"`
}

// Commit is one commit.
type Commit struct {
	Hash    string    `json:"hash" jsonschema:"the commit"`
	Author  string    `json:"author" jsonschema:"name of the author"`
	Email   string    `json:"email" jsonschema:"address of the author"`
	Date    time.Time `json:"date" jsonschema:"time of the change"`
	Subject string    `json:"subject" jsonschema:"first line of the message"`
	Body    string    `json:"body,omitempty" jsonschema:"the rest of the message"`
}

// commitFormat separates fields by NUL, which no field contains. -z separates the commits.
var commitFormat = []string{"-z", "--format=%H%x00%an%x00%ae%x00%aI%x00%s%x00%b"}

func parseCommits(out shell.ExecResult) ([]Commit, error) {
	commits := []Commit{}
	if out.Dropped > 0 {
		return nil, toolroom.Errorf(toolroom.CodeResourceLimit, "the messages of the commits are too long together").WithHint("ask for fewer commits with limit")
	}
	for f := strings.Split(out.Stdout, "\x00"); len(f) >= 6; f = f[6:] {
		date, _ := time.Parse(time.RFC3339, f[3]) // git writes it so
		commits = append(commits, Commit{f[0], f[1], f[2], date, f[4], strings.TrimSpace(f[5])})
	}
	return commits, nil
}

func (c Commit) line() string {
	return fmt.Sprintf("%.10s  %s  %s  %s", c.Hash, c.Date.Format(time.DateOnly), c.Author, c.Subject)
}

func (g *git) log() builtin.Tool {
	return builtin.MustTool(builtin.Spec[LogArgs, LogResult]{
		Tool:      tool("log", "Git log", "Show the history or log of a Git repository or of files: the last commits, who made them and when.", true, map[string]any{"limit": 5}),
		Arguments: withPath(map[string]builtin.Property{"ref": {"pattern": refPattern}, "limit": {"minimum": 1, "maximum": 1000, "default": 20}}),
		Predict:   func(_ *source.Request, in LogArgs) []toolroom.Effect { return g.effects(in.Path, "log") },
		Run: func(ctx context.Context, req *source.Request, in LogArgs) (LogResult, []toolroom.Content, error) {
			args := append([]string{"log", "--no-color", "--max-count=" + strconv.Itoa(cmp.Or(in.Limit, 20))}, commitFormat...)
			for option, value := range map[string]string{"--author=": in.Author, "--since=": in.Since, "--grep=": in.Search} {
				if value != "" {
					args = append(args, option+value)
				}
			}
			args = append(args, "--fixed-strings", "--regexp-ignore-case", "--end-of-options")
			if in.Ref != "" {
				args = append(args, in.Ref)
			}
			out, err := g.runReadOnly(ctx, req, in.Path, append(append(args, "--"), in.Files...)...)
			if err != nil {
				return LogResult{}, nil, err
			}
			commits, err := parseCommits(out)
			r := LogResult{commits}
			var text strings.Builder
			for _, c := range r.Commits {
				text.WriteString(c.line() + "\n")
			}
			if len(r.Commits) == 0 {
				text.WriteString("There are no such commits.")
			}
			return r, builtin.Text(text.String()), err
		},
	})
}

// ShowArgs are the arguments of git:show.
type ShowArgs struct {
	Path  string   `json:"path,omitempty" jsonschema:"folder of the repository"`
	Ref   string   `json:"ref,omitempty" jsonschema:"the commit, branch or tag"`
	Files []string `json:"files,omitempty" jsonschema:"show these files and folders only"`
}

// ShowResult is the value of git:show.
type ShowResult struct {
	Commit Commit     `json:"commit" jsonschema:"the commit"`
	Diff   string     `json:"diff" jsonschema:"its changes as a unified diff"`
	Files  []DiffFile `json:"files" jsonschema:"the changed files"`
	More   bool       `json:"more,omitempty" jsonschema:"more files are changed than are listed"`
}

func (g *git) show() builtin.Tool {
	return builtin.MustTool(builtin.Spec[ShowArgs, ShowResult]{
		Tool:      tool("show", "Show what is in a commit", "Show one Git commit: what is in this commit, what the commit changed, its author and message.", true, map[string]any{"ref": "HEAD"}),
		Arguments: withPath(map[string]builtin.Property{"ref": {"pattern": refPattern, "default": "HEAD"}}),
		Predict:   func(_ *source.Request, in ShowArgs) []toolroom.Effect { return g.effects(in.Path, "show") },
		Run: func(ctx context.Context, req *source.Request, in ShowArgs) (ShowResult, []toolroom.Content, error) {
			ref := cmp.Or(in.Ref, "HEAD")
			head, err := g.runReadOnly(ctx, req, in.Path, append(append([]string{"log", "--max-count=1"}, commitFormat...), "--end-of-options", ref, "--")...)
			if err != nil {
				return ShowResult{}, nil, err
			}
			commits, err := parseCommits(head)
			if err != nil {
				return ShowResult{}, nil, err
			}
			if len(commits) == 0 {
				return ShowResult{}, nil, toolroom.Errorf(toolroom.CodeNotFound, "there is no commit %s", ref)
			}
			changed, err := g.changes(ctx, req, in.Path, []string{"show", "--no-ext-diff", "--no-textconv", "--no-color", "--format="}, commits[0].Hash, in.Files)
			c := commits[0]
			text := fmt.Sprintf("commit %s\nAuthor: %s <%s>\nDate: %s\n\n%s\n\n%s\n\n%s", c.Hash, c.Author, c.Email, c.Date.Format(time.RFC3339), c.Subject, c.Body, changed.Diff)
			return ShowResult{c, changed.Diff, changed.Files, changed.More}, builtin.Text(text), err
		},
	})
}

// BlameArgs are the arguments of git:blame.
type BlameArgs struct {
	Path string `json:"path,omitempty" jsonschema:"folder of the repository"`
	File string `json:"file" jsonschema:"the file, relative to the repository's folder"`
	Ref  string `json:"ref,omitempty" jsonschema:"the commit or branch whose file is shown; the working folder if left out"`
	From int    `json:"from,omitempty" jsonschema:"first line"`
	To   int    `json:"to,omitempty" jsonschema:"last line"`
}

// BlameResult is the value of git:blame.
type BlameResult struct {
	Lines []BlameLine `json:"lines" jsonschema:"the lines of the file"`
	Next  int         `json:"next,omitempty" jsonschema:"the line at which the rest begins"`
}

// BlameLine is one line with the commit that wrote it.
type BlameLine struct {
	Line    int       `json:"line" jsonschema:"number of the line"`
	Text    string    `json:"text" jsonschema:"the line"`
	Commit  string    `json:"commit" jsonschema:"the commit; zeros if it is not committed"`
	Author  string    `json:"author" jsonschema:"who wrote it"`
	Date    time.Time `json:"date" jsonschema:"when"`
	Summary string    `json:"summary" jsonschema:"first line of the commit's message"`
}

func (g *git) blame() builtin.Tool {
	return builtin.MustTool(builtin.Spec[BlameArgs, BlameResult]{
		Tool:      tool("blame", "Git blame", "Blame or annotate: show who last changed each line of a file, or who wrote a line, in which commit and when it was changed.", true, map[string]any{"file": "main.go", "from": 1, "to": 20}),
		Arguments: withPath(map[string]builtin.Property{"ref": {"pattern": refPattern}, "file": {"minLength": 1}, "from": {"minimum": 1}, "to": {"minimum": 1}}),
		Predict:   func(_ *source.Request, in BlameArgs) []toolroom.Effect { return g.effects(in.Path, "blame") },
		Run: func(ctx context.Context, req *source.Request, in BlameArgs) (BlameResult, []toolroom.Content, error) {
			args := []string{"blame", "--porcelain", "--no-textconv"}
			if in.From > 0 || in.To > 0 {
				to := ""
				if in.To > 0 {
					to = strconv.Itoa(in.To)
				}
				args = append(args, fmt.Sprintf("-L%d,%s", max(in.From, 1), to))
			}
			if in.Ref != "" { // blame does not know --end-of-options; the schema refuses options
				args = append(args, in.Ref)
			}
			out, err := g.runReadOnly(ctx, req, in.Path, append(args, "--", in.File)...)
			r := parseBlame(out)
			var text strings.Builder
			for _, l := range r.Lines {
				fmt.Fprintf(&text, "%.8s %s %-15.15s %4d| %s\n", l.Commit, l.Date.Format(time.DateOnly), l.Author, l.Line, l.Text)
			}
			if r.Next > 0 {
				fmt.Fprintf(&text, "[there are more lines: from=%d]\n", r.Next)
			}
			return r, builtin.Text(text.String()), err
		},
	})
}

// parseBlame reads the output of git blame --porcelain.
func parseBlame(out shell.ExecResult) BlameResult {
	r := BlameResult{Lines: []BlameLine{}}
	commits := map[string]*BlameLine{}
	var current *BlameLine
	number := 0
	list, more := splitRecords(out, "\n")
	for _, line := range list {
		if rest, ok := strings.CutPrefix(line, "\t"); ok && current != nil {
			if len(r.Lines) == maxListed {
				r.Next = number
				return r
			}
			l := *current
			l.Line, l.Text = number, rest
			r.Lines = append(r.Lines, l)
			continue
		}
		key, value, _ := strings.Cut(line, " ")
		switch {
		case len(key) == 40 || len(key) == 64:
			if commits[key] == nil {
				commits[key] = &BlameLine{Commit: key}
			}
			current = commits[key]
			if f := strings.Fields(value); len(f) >= 2 {
				number, _ = strconv.Atoi(f[1])
			}
		case current == nil:
		case key == "author":
			current.Author = value
		case key == "author-time":
			seconds, _ := strconv.ParseInt(value, 10, 64)
			current.Date = time.Unix(seconds, 0).UTC()
		case key == "summary":
			current.Summary = value
		}
	}
	if more && len(r.Lines) > 0 {
		r.Next = r.Lines[len(r.Lines)-1].Line + 1
	}
	return r
}
