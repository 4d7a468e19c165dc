package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/code"
)

func (a *cli) execCommand() *cobra.Command {
	var who caller
	var o execOptions
	c := &cobra.Command{
		Use:   "exec -l LANGUAGE [CODE | -f FILE | - | --repl]",
		Short: "Run a program in a sandbox, with tools as functions",
		Long: `Run a program in a sandbox. It calls tools as functions: in Python
tools.github.create_issue(title="…"), in JavaScript await tools.github.create_issue({…}).
Its value is what it returns or, in Python, the value of the last expression.

With --session NAME, the next program in the session sees its variables. Without a
program on a terminal, exec reads lines interactively in a new session.

With -l command, the words are a command and its arguments: exec -l command -- ls -l

A file with the extension .wasm is run as a WebAssembly module (a WASI preview 1
command) with the words after -- as its arguments: exec sum.wasm -- 1 2 3`,
		Example: `  toolroom exec -l js 'const r = await tools.filesystem.list_directory({path: "."}); return r.length'
  toolroom exec -l python 'print(tools.math.add(a=1, b=2))'
  toolroom exec -f report.py --input 'month="May"' --json
  toolroom exec -l python --runtime docker -f report.py
  toolroom exec -l sh --egress api.example.com:443 'curl -s https://api.example.com/'`,
		Args: cobra.ArbitraryArgs,
	}
	run := func(ctx context.Context, r *app.App, args []string) error {
		call, err := who.call()
		if err == nil {
			err = r.CheckEnvironment(call.Environment)
		}
		if err != nil {
			return err
		}
		args = o.takeModule(args)
		if a.readsLines(&o, args) {
			return a.repl(ctx, r, call, &o, args)
		}
		p, err := a.program(&o, args)
		if err != nil {
			return err
		}
		p.Session = who.session
		ctx, end := app.Detachable(ctx)
		defer end()
		if call, err = r.ExecuteCall(call, *p); err != nil {
			return err
		}
		return a.runProgram(ctx, r, call)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if a.readsLines(&o, args) { // the line editor needs the terminal itself
			return a.inRoom(c.Context(), func(r *app.App) error { return run(c.Context(), r, args) })
		}
		return a.withRoom(run)(c, args)
	}
	who.flags(c)
	c.Flags().Lookup("no-wait").Usage = "return immediately if a call needs an approval; the program continues after the answer"
	o.flags(c)
	a.jsonFlag(c, "print the complete result as JSON")
	completeValues(c, "lang", "python", "js", "ts", "shell", "command", "wasm")
	completeValues(c, "profile", profiles...)
	return c
}

// readsLines reports whether exec reads programs line by line.
func (a *cli) readsLines(o *execOptions, args []string) bool {
	return o.repl || len(args) == 0 && o.file == "" && o.language != "command" && a.screen.inTerminal
}

// profiles are the values of --profile.
var profiles = []string{"standard", "hardened", "dev"}

// execOptions are the flags of exec.
type execOptions struct {
	program  toolroom.Program
	language string
	file     string
	stdin    string
	inputs   []string
	repl     bool
}

func (o *execOptions) flags(c *cobra.Command) {
	f := c.Flags()
	p := &o.program
	f.StringVarP(&o.language, "lang", "l", "", "python, js, ts, shell, command or wasm (default: by file extension)")
	f.StringVarP(&o.file, "file", "f", "", "run this file")
	f.StringVar(&o.stdin, "stdin", "", "file for the program's standard input (- is stdin)")
	f.StringArrayVar(&o.inputs, "input", nil, "set a variable of the program: NAME=JSON")
	f.StringVar(&p.Engine, "engine", "", "engine to use (default auto; toolroom doctor lists them)")
	f.StringVar(&p.Runtime, "runtime", "", "run in this runtime: process, docker, …")
	f.StringVar(&p.Profile, "profile", "", "standard (the default: no network, read-only root), hardened or dev")
	f.StringVar(&p.Image, "image", "", "image or root file system, for runtimes that use one")
	f.StringSliceVar(&p.Egress, "egress", nil, "hosts that the program may reach through its proxy: HOST[:PORT],… (default ports 443 and 80)")
	f.Int64Var(&p.MemoryBytes, "memory", 0, "maximum memory in bytes (default 256 MiB)")
	f.Int64Var(&p.CPUMS, "cpu-ms", 0, "maximum CPU time in milliseconds")
	f.Float64Var(&p.CPUs, "cpus", 0, "maximum number of processors")
	f.IntVar(&p.PIDs, "pids", 0, "maximum number of processes")
	f.Int64Var(&p.DiskBytes, "disk", 0, "maximum size of files in bytes")
	f.Int64Var(&p.OutputBytes, "output", 0, "maximum output in bytes (default 10 MiB)")
	f.IntVar(&p.MaxCalls, "calls", 0, "maximum number of tool calls (default 100)")
	f.BoolVar(&p.BestEffort, "best-effort", false, "run even if a limit cannot be enforced; --json lists the enforced ones")
	f.BoolVar(&o.repl, "repl", false, "read programs line by line, as on a terminal without CODE (default language js)")
}

// program builds the program to run from the flags and arguments.
func (a *cli) program(o *execOptions, args []string) (*toolroom.Program, error) {
	p := o.program
	text, err := a.programText(o, args)
	if err != nil {
		return nil, err
	}
	name := o.language
	if name == "" {
		name = strings.TrimPrefix(filepath.Ext(o.file), ".")
	}
	file := strings.TrimPrefix(text, "@")
	_, named := code.Language(strings.TrimPrefix(filepath.Ext(file), "."))
	named = named && len(args) == 1 && !strings.ContainsAny(file, " \t\n(")
	if name == "" {
		if named {
			return nil, usage("toolroom exec -f "+file, "a file is run with -f")
		}
		return nil, usage("toolroom exec --help", "the language of the program is missing: -l takes python, js, ts, shell, command or wasm")
	}
	var ok bool
	if p.Language, ok = code.Language(name); !ok {
		return nil, usage("toolroom exec --help", "unknown language %q: -l takes python, js, ts, shell, command or wasm", name)
	}
	switch p.Language {
	case "command":
		p.Command = args
	case "wasm":
		p.Command = args
		if p.Module, err = app.PackModule([]byte(text)); err != nil {
			return nil, err
		}
	default:
		if named && p.Language != "shell" && isFile(a.argumentPath(file)) {
			return nil, usage("toolroom exec -f "+file, "a file is run with -f")
		}
		p.Code = text
	}
	if p.Profile != "" {
		if err := oneOf("--profile", p.Profile, profiles...); err != nil {
			return nil, err
		}
	}
	if o.stdin != "" {
		if p.Stdin, err = a.programStdin(o); err != nil {
			return nil, err
		}
	}
	// All of it travels as JSON, which would replace other bytes.
	switch {
	case !utf8.ValidString(p.Code):
		return nil, notUTF8("the program is", "save it as UTF-8, or write other bytes as escapes of the language")
	case !utf8.ValidString(p.Stdin):
		return nil, notUTF8("the program's input is", "encode it, for example with base64, and decode it in the program")
	case !utf8.ValidString(strings.Join(p.Command, " ")):
		return nil, notUTF8("the command line is", "pass UTF-8 text")
	}
	inputs := map[string]json.RawMessage{}
	for _, input := range o.inputs {
		key, value, ok := strings.Cut(input, "=")
		if !ok || !json.Valid([]byte(value)) || !utf8.ValidString(input) {
			return nil, usage("toolroom exec --help", "--input %q is not NAME=JSON; text needs quotes: 'name=\"text\"'", input)
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

func notUTF8(what, hint string) error {
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s not UTF-8 text", what).WithHint("%s", hint)
}

// maxProgram is the maximum size of a program, in bytes.
const maxProgram = 2 << 20

func (a *cli) programText(o *execOptions, args []string) (string, error) {
	switch {
	case o.file != "" && o.file != "-":
		if len(args) > 0 && !o.acceptsArguments() {
			return "", usage("toolroom exec --help", "the program is read from %s; unexpected argument %q", o.file, args[0])
		}
		data, err := readFile(a.typedPath(o.file), maxModuleFile)
		if errors.Is(err, errTooLarge) {
			return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "%s has more than %d bytes", o.file, maxModuleFile)
		}
		if err != nil {
			return "", toolroom.Errorf(toolroom.CodeNotFound, "cannot read the program: %w", err)
		}
		return string(data), nil
	case o.language == "command":
		return "", nil
	case o.file == "-" || len(args) == 1 && args[0] == "-":
		data, err := io.ReadAll(io.LimitReader(a.In, maxProgram+1))
		if err == nil && len(data) > maxProgram {
			err = toolroom.Errorf(toolroom.CodeInvalidArguments, "the program on stdin has more than %d bytes", maxProgram)
		}
		return string(data), err
	case o.language == "wasm":
		return "", usage("toolroom exec --help", "pass the module's file, or - for stdin")
	case len(args) == 1:
		return args[0], nil
	}
	return "", usage("toolroom exec --help", "pass the program as one argument, with -f FILE, or as - for stdin")
}

// runProgram prints a program's output while it runs, and its value at the end.
func (a *cli) runProgram(ctx context.Context, r *app.App, call toolroom.Call) error {
	w := newWatcher(ctx, a, r)
	w.noWait = call.NoWait
	defer w.close()
	var result *toolroom.Result
	done := a.screen.showActivity("running the program, or preparing its engine for the first time")
	defer done()
	for e := range r.Stream(ctx, call) {
		if e.Kind != toolroom.EventCalled {
			done() // from here on the events say what happens
		}
		if e.Final() && e.Tool == "code:execute" {
			result = e.Result
		}
		if e.Kind == toolroom.EventChunk && e.Tool == "code:execute" && !a.asJSON {
			if err := a.printChunk(e.Chunk); err != nil {
				return err
			}
		}
		w.watch(e)
	}
	if result == nil {
		return toolroom.Errorf(toolroom.CodeInternal, "the program ended without a result")
	}
	return a.reportProgram(result)
}

// reportProgram prints the value of a program, or its error, and returns the exit code.
func (a *cli) reportProgram(result *toolroom.Result) error {
	if x := result.Execution; x != nil && !a.asJSON {
		a.printIsolation(x)
		for _, c := range x.Calls {
			a.warn(c.Warnings)
		}
	}
	if a.asJSON {
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
	if trace, ok := result.Error.Details["traceback"].(string); ok && !a.asJSON {
		trace = strings.TrimRight(trace, "\n")
		if kind, _ := result.Error.Details["type"].(string); strings.Contains(trace, kind) {
			message = trace // Python's traceback, which includes the error itself
		} else {
			message += "\n" + trace
		}
	}
	a.screen.fail(message, hintsOf(result.Error))
	return exitCode(result.Error.Code.Info().Exit)
}

// hintsOf returns the hints of an error for a person. It replaces those of a suspended program,
// which are written for a model and name a tool that reads results.
func hintsOf(e *toolroom.Error) string {
	if _, suspended := e.Details["approvals"]; suspended && e.Code == toolroom.CodeApprovalRequired {
		return fmt.Sprintf("a person can answer with: toolroom approve %s. Do not run it again; read its result with: toolroom runs wait %s", e.Approval, e.Run)
	}
	return e.Hints()
}

// printIsolation prints limits that were lowered and, on a terminal, the engine and its
// isolation.
func (a *cli) printIsolation(x *toolroom.Execution) {
	for _, one := range x.Lowered() {
		a.screen.say("%s (capped by code.max in the config)", one)
	}
	if a.screen.errTerminal {
		a.screen.say("%s, isolation: %s", x.Engine, x.Isolation)
	}
}

func (a *cli) printChunk(chunk json.RawMessage) error {
	var printed struct{ Stream, Text string }
	if err := json.Unmarshal(chunk, &printed); err != nil {
		return nil // it belongs to another tool
	}
	return a.screen.output(printed.Stream == "stderr", printed.Text)
}

// moduleExtension is the file extension of WebAssembly modules.
const moduleExtension = ".wasm"

// takeModule sets the file from the first argument if that names a WebAssembly module, and
// returns the other arguments.
func (o *execOptions) takeModule(args []string) []string {
	if o.file != "" || len(args) == 0 {
		return args
	}
	if o.language == "wasm" || o.language == "" && filepath.Ext(args[0]) == moduleExtension {
		o.file = args[0]
		return args[1:]
	}
	return args
}

// acceptsArguments reports whether arguments may follow the file.
func (o *execOptions) acceptsArguments() bool {
	return o.language == "command" || o.language == "wasm" || o.language == "" && filepath.Ext(o.file) == moduleExtension
}

// programStdin returns the program's standard input.
func (a *cli) programStdin(o *execOptions) (string, error) {
	if o.stdin != "-" {
		data, err := readFile(a.typedPath(o.stdin), maxProgram)
		if errors.Is(err, errTooLarge) {
			return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "the program's input has more than %d bytes", maxProgram)
		}
		if err != nil {
			return "", toolroom.Errorf(toolroom.CodeNotFound, "cannot read the program's input: %w", err)
		}
		return string(data), nil
	}
	if o.file == "-" {
		return "", usage("toolroom exec --help", "the program and its input cannot both come from stdin")
	}
	data, err := io.ReadAll(io.LimitReader(a.In, maxProgram+1))
	if err == nil && len(data) > maxProgram {
		err = toolroom.Errorf(toolroom.CodeInvalidArguments, "the program's input has more than %d bytes", maxProgram)
	}
	return string(data), err
}
