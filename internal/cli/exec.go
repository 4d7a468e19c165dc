package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/room"
)

func (a *app) execCommand() *cobra.Command {
	var who caller
	var o execOptions
	c := &cobra.Command{
		Use:   "exec -l LANGUAGE [CODE | -f FILE | - | --repl]",
		Short: "Run a program in a sandbox, with the tools as its functions",
		Long: `Run a program in a sandbox. The tools of the room are its functions: in Python
tools.github.create_issue(title="…"), in JavaScript await tools.github.create_issue({…}).
The value is that of return or, in Python, of the last expression.

With --session NAME variables live on for the next program in that session. On a
terminal, exec without a program reads them line by line in a session of its own.

With -l command the words are a program and its arguments: exec -l command -- ls -l

A file whose name ends in .wasm is a WebAssembly module, a command of WASI preview 1,
and what follows are its arguments: exec sum.wasm -- 1 2 3`,
		Example: `  toolroom exec -l js 'const r = await tools.filesystem.list_directory({path: "."}); return r.length'
  toolroom exec -l python 'print(tools.math.add(a=1, b=2))'
  toolroom exec -f report.py --input 'month="May"' --json
  toolroom exec -l python --runtime docker -f report.py
  toolroom exec -l sh --egress api.example.com:443 'curl -s https://api.example.com/'`,
		Args: cobra.ArbitraryArgs,
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, args []string) error {
			call, err := who.call()
			if err != nil {
				return err
			}
			args = o.moduleOf(args)
			if o.repl || len(args) == 0 && o.file == "" && o.language != "command" && a.screen.inTerminal {
				return a.repl(ctx, r, call, &o, args)
			}
			p, err := a.program(&o, args)
			if err != nil {
				return err
			}
			p.Session = who.session
			r.KeepWaiting(ctx)
			if call, err = r.ExecuteCall(call, *p); err != nil {
				return err
			}
			return a.runProgram(ctx, r, call, o.json)
		}),
	}
	who.flags(c)
	o.flags(c)
	completeWords(c, "lang", "python", "js", "ts", "shell", "command", "wasm")
	completeWords(c, "profile", "dev", "standard", "hardened")
	return c
}

// execOptions are the flags of exec.
type execOptions struct {
	program  room.Program
	language string
	file     string
	stdin    string
	inputs   []string
	json     bool
	repl     bool
}

func (o *execOptions) flags(c *cobra.Command) {
	f := c.Flags()
	p := &o.program
	f.StringVarP(&o.language, "lang", "l", "", "python, js, ts, shell, command or wasm; else by the name of the file")
	f.StringVarP(&o.file, "file", "f", "", "run this file")
	f.StringVar(&o.stdin, "stdin", "", "what the program reads from its standard input: the text of this file, or - for that of exec")
	f.StringArrayVar(&o.inputs, "input", nil, "NAME=JSON: a variable of the program")
	f.StringVar(&p.Engine, "engine", "", "auto (the default), or the name of an engine: toolroom doctor lists them")
	f.StringVar(&p.Runtime, "runtime", "", "run in this sandbox: process, docker, …")
	f.StringVar(&p.Profile, "profile", "", "standard (the default: no network, read-only root), hardened or dev")
	f.StringVar(&p.Image, "image", "", "image or root file system, for runtimes that have one")
	f.StringSliceVar(&p.Egress, "egress", nil, "HOST[:PORT],… that the program may reach through the proxy of its environment (ports 443 and 80)")
	f.Int64Var(&p.MemoryBytes, "memory", 0, "most bytes of memory (256 MiB)")
	f.Int64Var(&p.CPUMS, "cpu-ms", 0, "most milliseconds of CPU time")
	f.Float64Var(&p.CPUs, "cpus", 0, "most processors at once")
	f.IntVar(&p.PIDs, "pids", 0, "most processes")
	f.Int64Var(&p.DiskBytes, "disk", 0, "most bytes of files")
	f.Int64Var(&p.OutputBytes, "output", 0, "most bytes of output (10 MiB)")
	f.IntVar(&p.MaxCalls, "calls", 0, "most tool calls (100)")
	f.BoolVar(&p.BestEffort, "best-effort", false, "run even where a limit cannot be held; --json lists what was")
	f.BoolVar(&o.repl, "repl", false, "read programs line by line, as on a terminal without CODE (js unless -l says else)")
	f.BoolVar(&o.json, "json", false, "print the whole result envelope")
}

// program puts together what is to be run.
func (a *app) program(o *execOptions, args []string) (*room.Program, error) {
	p := o.program
	text, err := a.programText(o, args)
	if err != nil {
		return nil, err
	}
	name := o.language
	if name == "" {
		name = strings.TrimPrefix(filepath.Ext(o.file), ".")
	}
	var ok bool
	if p.Language, ok = code.Language(name); !ok {
		return nil, usage("toolroom exec --help", "which language? -l takes python, js, ts, shell, command or wasm, not %q", name)
	}
	switch p.Language {
	case "command":
		p.Command = args
	case "wasm":
		p.Command = args
		if p.Module, err = room.PackModule([]byte(text)); err != nil {
			return nil, err
		}
	default:
		p.Code = text
	}
	if o.stdin != "" {
		if p.Stdin, err = a.programStdin(o); err != nil {
			return nil, err
		}
	}
	inputs := map[string]json.RawMessage{}
	for _, input := range o.inputs {
		key, value, ok := strings.Cut(input, "=")
		if !ok || !json.Valid([]byte(value)) {
			return nil, usage("toolroom exec --help", "--input %q is not NAME=JSON; a text needs quotes: 'name=\"text\"'", input)
		}
		inputs[key] = json.RawMessage(value)
	}
	if len(inputs) > 0 {
		if p.Inputs, err = json.Marshal(inputs); err != nil {
			return nil, err
		}
	}
	return &p, nil
}

// maxProgram is the longest program, in bytes.
const maxProgram = 2 << 20

func (a *app) programText(o *execOptions, args []string) (string, error) {
	switch {
	case o.file != "" && o.file != "-":
		if len(args) > 0 && !o.takesWords() {
			return "", usage("toolroom exec --help", "the program is in %s; what is %q?", o.file, args[0])
		}
		data, err := os.ReadFile(o.file)
		if err != nil {
			return "", toolroom.Errorf(toolroom.CodeNotFound, "the program cannot be read: %w", err)
		}
		return string(data), nil
	case o.language == "command":
		return "", nil
	case o.file == "-" || len(args) == 1 && args[0] == "-":
		data, err := io.ReadAll(io.LimitReader(a.In, maxProgram+1))
		if err == nil && len(data) > maxProgram {
			err = toolroom.Errorf(toolroom.CodeInvalidArguments, "the program on stdin is longer than %d bytes", maxProgram)
		}
		return string(data), err
	case o.language == "wasm":
		return "", usage("toolroom exec --help", "give the file of the module, or - for stdin")
	case len(args) == 1:
		return args[0], nil
	}
	return "", usage("toolroom exec --help", "give the program as one argument, as -f FILE, or as - for stdin")
}

// runProgram prints what a program prints while it runs, and its value at the
// end.
func (a *app) runProgram(ctx context.Context, r *room.Room, call toolroom.Call, asJSON bool) error {
	w := newWatcher(ctx, a, r)
	w.noWait = call.NoWait
	defer w.close()
	var result *toolroom.Result
	for e := range r.Stream(ctx, call) {
		if e.Final() && e.Tool == "code:execute" {
			result = e.Result
		}
		if e.Kind == toolroom.EventChunk && e.Tool == "code:execute" && !asJSON {
			if err := a.printChunk(e.Chunk); err != nil {
				return err
			}
		}
		w.watch(e)
	}
	if result == nil {
		return toolroom.Errorf(toolroom.CodeInternal, "the program ended without a result")
	}
	return a.endProgram(result, asJSON)
}

// endProgram prints the value of a program, or its error.
func (a *app) endProgram(result *toolroom.Result, asJSON bool) error {
	if x := result.Execution; x != nil && !asJSON {
		a.tellWalls(x)
	}
	if asJSON {
		if err := a.screen.json(result); err != nil {
			return err
		}
	} else if result.Error == nil && len(result.Value) > 0 && !bytes.Equal(result.Value, []byte("null")) {
		if err := a.printResult(result); err != nil {
			return err
		}
	}
	if result.Error == nil {
		return nil
	}
	message := result.Error.Message
	if trace, ok := result.Error.Details["traceback"].(string); ok && !asJSON {
		trace = strings.TrimRight(trace, "\n")
		if kind, _ := result.Error.Details["type"].(string); strings.Contains(trace, kind) {
			message = trace // as Python writes it, with the error itself
		} else {
			message += "\n" + trace
		}
	}
	a.screen.fail(message, result.Error.Hint)
	return exitCode(result.Error.Code.Info().Exit)
}

// tellWalls says on a terminal where a program ran and within which walls, and in
// any case which limits were not given as asked.
func (a *app) tellWalls(x *toolroom.Execution) {
	for _, one := range x.Lowered() {
		a.screen.say("%s: code.max of the config is the most", one)
	}
	if a.screen.errTerminal {
		a.screen.say("%s, isolation: %s", x.Engine, x.Isolation)
	}
}

func (a *app) printChunk(chunk json.RawMessage) error {
	var printed struct{ Stream, Text string }
	if err := json.Unmarshal(chunk, &printed); err != nil {
		return nil // it is of another tool
	}
	out := a.Out
	if printed.Stream == "stderr" {
		out = a.Err
	}
	_, err := io.WriteString(out, printed.Text)
	return err
}
