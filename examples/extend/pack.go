package extend

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

// StatusArgs are the arguments of git:status.
type StatusArgs struct {
	Path string `json:"path,omitempty" jsonschema:"folder of the repository; the default is the working folder"`
}

// Status is the value of git:status.
type Status struct {
	Clean bool     `json:"clean" jsonschema:"nothing has changed"`
	Files []Change `json:"files" jsonschema:"the changed files"`
}

// Change is a changed file.
type Change struct {
	State string `json:"state" jsonschema:"as git status --short shows it, such as M or ??"`
	Path  string `json:"path" jsonschema:"the file"`
}

// GitStatus is a static tool: it needs nothing but its arguments.
func GitStatus(ctx context.Context, in StatusArgs) (Status, error) {
	cmd := exec.CommandContext(ctx, "git", "-c", "core.fsmonitor=false", "status", "--porcelain", "-z")
	cmd.Dir = cmp.Or(in.Path, ".")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.New(string(bytes.TrimSpace(exit.Stderr)))
		}
		return Status{}, toolroom.Errorf(toolroom.CodeExecutionFailed, "git status failed: %w", err).
			WithHint("pass the folder of a repository as path")
	}
	status := Status{Clean: len(out) == 0, Files: []Change{}}
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if len(entry) > 3 && entry[2] == ' ' {
			status.Files = append(status.Files, Change{strings.TrimSpace(entry[:2]), entry[3:]})
		}
	}
	return status, nil
}

// AddGit registers the static tool with its hints and an example.
func AddGit(r *room.Room) error {
	yes, no := true, false
	return room.RegisterTool(r, toolroom.Tool{
		ID: toolroom.MustParseID("git:status"), Title: "Status of a repository",
		Description: "Show which files of a Git repository have changed.",
		Hints:       toolroom.Hints{ReadOnly: &yes, OpenWorld: &no},
		Effects:     []toolroom.Effect{{Kind: toolroom.EffectCommand, Target: "git status"}, {Kind: toolroom.EffectFile, Mode: "read", Target: "{path}"}},
		Examples:    []toolroom.Example{{Arguments: []byte(`{"path": "."}`)}},
	}, GitStatus)
}

// Notes holds the notes that the tools below share.
type Notes struct {
	mu    sync.Mutex
	texts map[string]string
}

// Note is the argument and the value of the tools on notes.
type Note struct {
	Name string `json:"name" jsonschema:"name of the note"`
	Text string `json:"text,omitempty" jsonschema:"its text"`
}

// ReadNote is a factory: it returns a tool that uses n.
func ReadNote(n *Notes) func(context.Context, Note) (Note, error) {
	return func(_ context.Context, in Note) (Note, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		text, ok := n.texts[in.Name]
		if !ok {
			return Note{}, toolroom.Errorf(toolroom.CodeNotFound, "there is no note %q", in.Name)
		}
		return Note{in.Name, text}, nil
	}
}

// AddNotes is a multi-factory: it registers several tools that share one Notes.
func AddNotes(r *room.Room, namespace string) error {
	n := &Notes{texts: map[string]string{}}
	write := func(_ context.Context, in Note) (string, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.texts[in.Name] = in.Text
		return fmt.Sprintf("kept %d bytes", len(in.Text)), nil
	}
	return errors.Join(
		room.Register(r, namespace+":read", "Read a note by its name.", ReadNote(n)),
		room.Register(r, namespace+":write", "Write a note.", write),
	)
}
