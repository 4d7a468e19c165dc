// Package cli implements a source for the tools of a command-line program: one tool
// for the program itself, and one for each sub-command that its help names. It uses
// no shell, and arguments become flags only if the caller passes them as flags.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/source"
)

// Mode selects the programs that may run.
type Mode string

// Modes.
const (
	// Disabled permits no program.
	Disabled Mode = "disabled"
	// Allowlist permits the programs in Policy.Allow or, if that is empty, those that are
	// configured as sources.
	Allowlist Mode = "allowlist"
	// Ambient permits any program.
	Ambient Mode = "ambient"
)

// Policy decides which programs may run. It is checked at each call, outside any
// sandbox.
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
		// A name permits the program that PATH finds, a path only that file.
		return nil
	default:
		return toolroom.Errorf(toolroom.CodeDenied, "the policy for command-line programs does not permit %s", command).
			WithHint("add it to cli.allow in toolroom.yaml, as written in the source")
	}
}

// Config configures a source.
type Config struct {
	Namespace string
	// Command is a name on PATH or a path. Args precede all other arguments.
	Command string
	Args    []string
	Dir     string
	// RunDir is the folder to which relative paths refer where the program runs, for
	// predicted effects; the default is Dir.
	RunDir string
	// Env returns the whole environment. It is called at each call.
	Env         func(context.Context) ([]string, error)
	Description string
	// Subcommands replaces the sub-commands in the help. The words of a nested one
	// are separated by spaces or dots.
	Subcommands []string
	// SkipHelp means that the program is not run for its help before a call. Its flags and
	// sub-commands are then unknown.
	SkipHelp bool
	// Allow lists flags and commands that this source permits although the program's sheet
	// denies them, and Deny further ones that it denies: FLAG, COMMAND, or COMMAND FLAG, such
	// as "push --force".
	Allow, Deny []string
	Timeout     time.Duration
	Policy      Policy
	// Owner marks the processes (see package proc).
	Owner string
	// Start starts a program that must not have the given effects, as in
	// [source.Request.Forbidden]. The default is proc.Start, which enforces no rules and is
	// called with none.
	Start func(context.Context, proc.Spec, []toolroom.Effect) (*proc.Process, error)
	// Sandboxed means that Start starts programs in a sandbox, whose PATH may differ from
	// that of this process.
	Sandboxed bool
	// Enforces reports whether Start can enforce rules on this machine; nil means that it
	// cannot.
	Enforces func() bool
}

// Source is one program. It reads the help of the program when its tools are first listed. If
// the sheet or the help says that commands answer --help, it also reads the help of the
// commands then, for a limited time. Otherwise the help of a sub-command is read when that is
// first described or called.
type Source struct {
	o            Config
	sheet        *sheet
	toolsChanged func()
	calls        deadline.Calls

	mu   sync.Mutex
	help map[string]*help // by sub-command; "" is the program
}

var (
	_ source.Describer = (*Source)(nil)
	_ source.Notifier  = (*Source)(nil)
	_ source.Predictor = (*Source)(nil)
	_ source.Refiner   = (*Source)(nil)
)

// New returns a source. It starts nothing until the source is used.
func New(o Config) *Source {
	if o.Start == nil {
		o.Start = func(_ context.Context, s proc.Spec, _ []toolroom.Effect) (*proc.Process, error) { return proc.Start(s) }
	}
	return &Source{o: o, sheet: sheetFor(o.Command), toolsChanged: func() {}, help: map[string]*help{}}
}

// Notify sets the function that is called after the help of a tool has been read.
func (s *Source) Notify(e source.Events) { s.toolsChanged = e.ToolsChanged }

// Describe describes the source.
func (s *Source) Describe() source.Description {
	d := source.Description{Kind: toolroom.SourceCLI, Title: filepath.Base(s.o.Command), Text: s.o.Description, State: "ready"}
	if _, err := exec.LookPath(s.o.Command); err != nil && !s.o.Sandboxed {
		d.State, d.Reason = "broken", fmt.Sprintf("%s is not on PATH: install it, or set its full path", s.o.Command)
	}
	return d
}

// Tools lists the program and its sub-commands.
func (s *Source) Tools(ctx context.Context) ([]toolroom.Tool, error) {
	top, err := s.readHelp(ctx, "")
	if err != nil {
		return nil, err
	}
	s.readAllHelp(ctx, top)
	tools := []toolroom.Tool{s.newTool(s.programTool(), top, s.programDescription(top))}
	for _, name := range s.subcommands(top) {
		tools = append(tools, s.subcommandTool(name, top))
	}
	return tools, nil
}

// maxTools limits the tools of a program.
const maxTools = 1000

// subcommands returns the names of all known sub-commands, including nested ones
// if their parent's help has been read.
func (s *Source) subcommands(top *help) []string {
	if len(s.o.Subcommands) > 0 {
		names := make([]string, len(s.o.Subcommands))
		for i, words := range s.o.Subcommands {
			names[i] = strings.Join(strings.Fields(words), ".")
		}
		return names
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	seen := map[string]bool{}
	var add func(prefix string, h *help)
	add = func(prefix string, h *help) {
		for _, c := range h.commands {
			name := prefix + c.name
			if seen[name] || len(names) == maxTools {
				continue
			}
			seen[name] = true
			names = append(names, name)
			if sub := s.help[name]; sub != nil && strings.Count(name, ".") < maxDepth {
				add(name+".", sub)
			}
		}
	}
	add("", top)
	for _, name := range slices.Sorted(maps.Keys(s.sheet.Commands)) {
		if name = strings.ReplaceAll(name, " ", "."); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// maxDepth is the maximum nesting of commands: docker trust key load.
const maxDepth = 2

func (s *Source) subcommandTool(name string, top *help) toolroom.Tool {
	s.mu.Lock()
	known := s.help[name]
	parent, last := top, name
	if at := strings.LastIndexByte(name, '.'); at >= 0 {
		parent, last = s.help[name[:at]], name[at+1:]
	}
	text := ""
	if parent != nil {
		text = parent.commandText(last)
	}
	s.mu.Unlock()
	text = cmp.Or(s.sheet.Commands[strings.ReplaceAll(name, ".", " ")], text)
	if text == "" && known != nil {
		text = known.about
	}
	words := filepath.Base(s.o.Command) + " " + strings.ReplaceAll(name, ".", " ")
	if text == "" {
		text = "Run " + words + "."
	} else {
		text = words + ": " + text
	}
	return s.newTool(name, known, text)
}

// programTool returns the name of the tool for the program itself: the program's
// name, in a form that no sub-command has.
func (s *Source) programTool() string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("_.-", r) || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, filepath.Base(s.o.Command))
}

func (s *Source) programDescription(top *help) string {
	text := cmp.Or(s.o.Description, s.sheet.Summary, top.about)
	return strings.TrimSpace("Run " + filepath.Base(s.o.Command) + ". " + text)
}

func (s *Source) newTool(name string, h *help, text string) toolroom.Tool {
	return toolroom.Tool{
		ID:           toolroom.ID{Namespace: s.o.Namespace, Name: name},
		Description:  text,
		InputSchema:  h.schema(),
		Hints:        s.sheet.hints(s.subcommandOf(name), s.o.Allow),
		OutputSchema: json.RawMessage(outputSchema),
		Source:       toolroom.SourceCLI,
		Timeout:      s.o.Timeout,
		Tags:         []string{"cli"},
	}
}

// Refine reads the help of one sub-command, so that its flags are known.
func (s *Source) Refine(ctx context.Context, id toolroom.ID) (toolroom.Tool, error) {
	name := s.subcommandOf(id.Name)
	if _, err := s.readHelp(ctx, name); err != nil {
		return toolroom.Tool{}, err
	}
	top, err := s.readHelp(ctx, "")
	if err != nil {
		return toolroom.Tool{}, err
	}
	if name == "" {
		return s.newTool(id.Name, top, s.programDescription(top)), nil
	}
	return s.subcommandTool(name, top), nil
}

// subcommandOf returns the sub-command of a tool, or "" for the program.
func (s *Source) subcommandOf(tool string) string {
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

// commandLine returns the arguments of the program, and its input.
func (s *Source) commandLine(ctx context.Context, req *source.Request) (argv []string, stdin string, err error) {
	if err := s.o.Policy.check(s.o.Command); err != nil {
		return nil, "", err
	}
	top, err := s.readHelp(ctx, "")
	if err != nil {
		return nil, "", err
	}
	name := s.subcommandOf(req.Tool.Name)
	h := top
	if name != "" {
		for at, c := range name {
			if parent := name[:at]; c == '.' && slices.Contains(s.subcommands(top), parent) {
				if _, err := s.readHelp(ctx, parent); err != nil {
					return nil, "", err
				}
			}
		}
		if !slices.Contains(s.subcommands(top), name) {
			return nil, "", toolroom.Errorf(toolroom.CodeToolNotFound, "%s has no sub-command %s", filepath.Base(s.o.Command), name)
		}
		if h, err = s.readHelp(ctx, name); err != nil {
			return nil, "", err
		}
	}
	a, err := h.parseArguments(req.Arguments)
	if err != nil {
		return nil, "", err
	}
	var path []string
	if name != "" {
		path = strings.Split(name, ".")
	}
	if err := s.checkDenied(path, a.flags, a.positional); err != nil {
		return nil, "", err
	}
	return s.argv(name, h, a), a.stdin, nil
}

// Limits for reading the help of all commands.
const (
	readAllTimeout = 8 * time.Second
	readWorkers    = 4
)

// readAllHelp reads the help of all commands, level by level, if the program has a sheet or its
// help says that commands answer --help. After readAllTimeout, the rest is left to readHelp.
func (s *Source) readAllHelp(ctx context.Context, top *help) {
	if s.sheet.Lazy || s.sheet.Summary == "" && !top.commandsHaveHelp {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readAllTimeout)
	defer cancel()
	asked := map[string]bool{}
	for range maxDepth + 1 {
		names := slices.DeleteFunc(s.subcommands(top), func(name string) bool { return asked[name] })
		next := make(chan string)
		var readers sync.WaitGroup
		for range min(readWorkers, len(names)) {
			readers.Go(func() {
				for name := range next {
					// A command without help has no flags.
					_ = panics.Catch(func() { _, _ = s.loadHelp(ctx, name) })
				}
			})
		}
		for _, name := range names {
			asked[name] = true
			if ctx.Err() == nil {
				next <- name
			}
		}
		close(next)
		readers.Wait()
	}
}

// readHelp returns the help of a sub-command. It loads the help once, and then announces that
// the tools have changed.
func (s *Source) readHelp(ctx context.Context, name string) (*help, error) {
	s.mu.Lock()
	h, known := s.help[name]
	s.mu.Unlock()
	if known {
		return h, nil
	}
	h, err := s.loadHelp(ctx, name)
	if err == nil && name != "" {
		s.toolsChanged()
	}
	return h, err
}

// loadHelp gets the help of a sub-command from the program, the sheet and the manual page, and
// stores it.
func (s *Source) loadHelp(ctx context.Context, name string) (*help, error) {
	if err := s.o.Policy.check(s.o.Command); err != nil {
		return nil, err
	}
	var text string
	if !s.o.SkipHelp {
		var err error
		if text, err = s.runHelp(ctx, name); err != nil {
			return nil, err
		}
	}
	h := parseHelp(text)
	var path []string
	if name != "" {
		path = strings.Split(name, ".")
	}
	if s.sheet.Manual {
		h.flags = nil
	}
	h.addFlags(parseHelp(s.sheet.Flags).flags)
	if len(h.flags) < fewFlags || s.sheet.Manual {
		h.addFlags(manualFlags(s.o.Command, path))
	}
	s.prepareFlags(h, path)
	s.mu.Lock()
	s.help[name] = h
	s.mu.Unlock()
	return h, nil
}

// Close ends all processes. It is idempotent.
func (s *Source) Close() error {
	s.calls.Close()
	return nil
}
