// Package clisource makes a command-line program a source of tools: one for the
// program itself, and one for each sub-command that its help names. No shell
// stands in between, and arguments cannot become flags unless they are meant to.
package clisource

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/source/inflight"
	"github.com/toolroom/toolroom/source"
)

// Mode says which programs may run at all.
type Mode string

// The modes.
const (
	// Disabled runs none.
	Disabled Mode = "disabled"
	// Allowlist runs those that Policy.Allow names; with an empty list, those
	// that are configured as sources.
	Allowlist Mode = "allowlist"
	// Ambient runs any.
	Ambient Mode = "ambient"
)

// Policy is checked at each call, on the host side.
type Policy struct {
	Mode  Mode     `yaml:"mode"`
	Allow []string `yaml:"allow"`
}

func (p Policy) check(command string) error {
	switch {
	case p.Mode == Disabled:
		return toolroom.Errorf(toolroom.CodeDenied, "command-line programs are disabled").
			WithHint("set cli.mode to allowlist in toolroom.yaml")
	case p.Mode == Ambient, len(p.Allow) == 0, slices.Contains(p.Allow, command):
		// A name allows what PATH finds, a path that very file.
		return nil
	default:
		return toolroom.Errorf(toolroom.CodeDenied, "%s is not among the programs that may run", command).
			WithHint("add it to cli.allow in toolroom.yaml, as it stands in the source")
	}
}

// Config says which program it is.
type Config struct {
	Namespace string
	// Command is a name on PATH or a path; Args stand before all others.
	Command string
	Args    []string
	Dir     string
	// Env gives the whole environment, asked at each call.
	Env         func(context.Context) ([]string, error)
	Description string
	// Subcommands replaces what the help names; a nested one has its words
	// joined by a dot.
	Subcommands []string
	Timeout     time.Duration
	Policy      Policy
	// Owner marks the processes (see package proc).
	Owner string
	// Start starts a program; nil is proc.Start.
	Start func(proc.Spec) (*proc.Process, error)
}

// Source is one program. Its help is read when its tools are first listed, and
// that of a sub-command when it is first described or called.
type Source struct {
	o       Config
	changed func()
	calls   inflight.Group

	mu   sync.Mutex
	help map[string]*help // by sub-command; "" is the program
}

// New makes a source; nothing runs until it is used.
func New(o Config) *Source {
	if o.Start == nil {
		o.Start = proc.Start
	}
	return &Source{o: o, changed: func() {}, help: map[string]*help{}}
}

// Notify sets the function that hears of tools whose help has been read.
func (s *Source) Notify(changed func()) { s.changed = changed }

// Describe says what the source is.
func (s *Source) Describe() source.Description {
	d := source.Description{Kind: toolroom.SourceCLI, Title: filepath.Base(s.o.Command), Text: s.o.Description, State: "ready"}
	if _, err := exec.LookPath(s.o.Command); err != nil {
		d.State, d.Reason = "broken", fmt.Sprintf("%s is not on PATH: install it, or give its whole path", s.o.Command)
	}
	return d
}

// Tools lists the program and its sub-commands.
func (s *Source) Tools(ctx context.Context) ([]toolroom.Tool, error) {
	top, err := s.read(ctx, "")
	if err != nil {
		return nil, err
	}
	tools := []toolroom.Tool{s.tool(s.programTool(), top, s.programText(top))}
	for _, name := range s.subcommands(top) {
		tools = append(tools, s.subcommand(name, top))
	}
	return tools, nil
}

// subcommands are the names of all that are known now, nested ones where their
// parent's help has been read.
func (s *Source) subcommands(top *help) []string {
	if len(s.o.Subcommands) > 0 {
		return s.o.Subcommands
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, c := range top.commands {
		names = append(names, c.name)
		if sub, ok := s.help[c.name]; ok {
			for _, nested := range sub.commands {
				names = append(names, c.name+"."+nested.name)
			}
		}
	}
	return names
}

func (s *Source) subcommand(name string, top *help) toolroom.Tool {
	s.mu.Lock()
	known := s.help[name]
	parent, last, nested := strings.Cut(name, ".")
	text := top.text(name)
	if nested && s.help[parent] != nil {
		text = s.help[parent].text(last)
	}
	s.mu.Unlock()
	words := filepath.Base(s.o.Command) + " " + strings.ReplaceAll(name, ".", " ")
	if text == "" {
		text = "Run " + words + "."
	} else {
		text = words + ": " + text
	}
	return s.tool(name, known, text)
}

// programTool is the name of the tool for the program itself: that of the
// program, which no sub-command has.
func (s *Source) programTool() string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("_.-", r) || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, filepath.Base(s.o.Command))
}

func (s *Source) programText(top *help) string {
	text := s.o.Description
	if text == "" {
		text = top.about
	}
	return strings.TrimSpace("Run " + filepath.Base(s.o.Command) + ". " + text)
}

func (s *Source) tool(name string, h *help, text string) toolroom.Tool {
	return toolroom.Tool{
		ID:           toolroom.ID{Namespace: s.o.Namespace, Name: name},
		Description:  text,
		InputSchema:  h.schema(),
		OutputSchema: json.RawMessage(outputSchema),
		Source:       toolroom.SourceCLI,
		Timeout:      s.o.Timeout,
		Tags:         []string{"cli"},
	}
}

// Refine reads the help of one sub-command, so that its flags are known.
func (s *Source) Refine(ctx context.Context, id toolroom.ID) (toolroom.Tool, error) {
	name := s.path(id.Name)
	if _, err := s.read(ctx, name); err != nil {
		return toolroom.Tool{}, err
	}
	top, err := s.read(ctx, "")
	if err != nil {
		return toolroom.Tool{}, err
	}
	if name == "" {
		return s.tool(id.Name, top, s.programText(top)), nil
	}
	return s.subcommand(name, top), nil
}

// path is the sub-command that a tool stands for, empty for the program.
func (s *Source) path(tool string) string {
	if tool == s.programTool() {
		return ""
	}
	return tool
}

// Call runs the program. A cancelled call ends its whole process group.
func (s *Source) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	ctx, done, err := s.calls.Begin(ctx)
	if err != nil {
		return &source.Output{Unsent: true}, err
	}
	defer done()
	argv, stdin, err := s.commandLine(ctx, req)
	if err != nil {
		return &source.Output{Unsent: true}, err
	}
	return s.run(ctx, argv, stdin, req)
}

// commandLine is what a call starts, without the program, and its input.
func (s *Source) commandLine(ctx context.Context, req *source.Request) (argv []string, stdin string, err error) {
	if err := s.o.Policy.check(s.o.Command); err != nil {
		return nil, "", err
	}
	top, err := s.read(ctx, "")
	if err != nil {
		return nil, "", err
	}
	name := s.path(req.Tool.Name)
	h := top
	if name != "" {
		if parent, _, nested := strings.Cut(name, "."); nested && top.has(parent) {
			if _, err := s.read(ctx, parent); err != nil {
				return nil, "", err
			}
		}
		if !slices.Contains(s.subcommands(top), name) {
			return nil, "", toolroom.Errorf(toolroom.CodeToolNotFound, "%s has no sub-command %s", filepath.Base(s.o.Command), name)
		}
		if h, err = s.read(ctx, name); err != nil {
			return nil, "", err
		}
	}
	a, err := h.arguments(req.Arguments)
	if err != nil {
		return nil, "", err
	}
	return s.argv(name, h, a), a.stdin, nil
}

// read gives the help of a sub-command, asking the program for it once.
func (s *Source) read(ctx context.Context, name string) (*help, error) {
	s.mu.Lock()
	h, known := s.help[name]
	s.mu.Unlock()
	if known {
		return h, nil
	}
	if err := s.o.Policy.check(s.o.Command); err != nil {
		return nil, err
	}
	text, err := s.ask(ctx, name)
	if err != nil {
		return nil, err
	}
	h = parseHelp(text)
	s.mu.Lock()
	s.help[name] = h
	s.mu.Unlock()
	if name != "" {
		s.changed()
	}
	return h, nil
}

// Close ends all processes. It is idempotent.
func (s *Source) Close() error {
	s.calls.Close()
	return nil
}
