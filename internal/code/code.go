// Package code implements code mode: it runs a program that an agent wrote in a sandbox,
// with the room's tools as its functions. It is a source with the one tool code:execute, so
// a program passes the pipeline like any call, and its calls are children of that call.
package code

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/source"
)

// Tool is the id of the one tool of this source.
const Tool = "code:execute"

// Options are the dependencies of a [Service]. All but Journals are required.
type Options struct {
	Runner    *run.Runner
	Catalog   *catalog.Catalog
	Artifacts *artifact.Store
	Sessions  *session.Store
	// Journals stores suspended programs. Without it they do not outlive this process.
	Journals session.JournalStore
	// Engines are the engines that programs may run on, in the order of preference of auto.
	Engines []engine.Engine
	// Remote runs whole programs in another room; nil if there is none.
	Remote Remote
	// AddProgram adds a command-line program as a source that programs can call, or returns
	// why it cannot; if it is nil, no source is added.
	AddProgram func(ctx context.Context, name string) error
	// Egress checks and makes the connections of programs that name hosts; nil permits
	// public addresses.
	Egress *egress.Guard
	// Guest is the path of the guest's binary, and GuestArgs are the arguments to start it.
	Guest     string
	GuestArgs []string
	Config    Config
}

// Config sets the limits of programs. Zero fields mean the stated defaults.
type Config struct {
	// Host permits the runtime host, which is not a sandbox.
	Host bool
	// Default holds the limits of a program that requests none, and Max the maximum that it
	// may request. Zero CPUs means any number.
	Default, Max toolroom.ExecutionLimits
	// Parallel is the number of tool calls of one program that may run at once (10).
	Parallel int
	// ShownOutput is the number of bytes of stdout and stderr that a result shows (16,384
	// each).
	ShownOutput int
}

func (c Config) withDefaults() Config {
	c.Default = orLimits(c.Default, toolroom.ExecutionLimits{
		Wall: bridge.DefaultWall * time.Millisecond, Memory: bridge.DefaultMemory, Output: bridge.DefaultOutput, Calls: bridge.DefaultCalls,
	})
	c.Max = orLimits(c.Max, toolroom.ExecutionLimits{
		Wall: 10 * time.Minute, CPU: 10 * time.Minute, Memory: 2 << 30, Output: 64 << 20, Calls: 10_000, PIDs: 1024, Disk: 4 << 30,
	})
	if c.Parallel == 0 {
		c.Parallel = bridge.DefaultParallel
	}
	if c.ShownOutput == 0 {
		c.ShownOutput = 16 << 10
	}
	return c
}

// orLimits replaces the zero fields of l.
func orLimits(l, fallback toolroom.ExecutionLimits) toolroom.ExecutionLimits {
	l.Wall = cmp.Or(l.Wall, fallback.Wall)
	l.CPU = cmp.Or(l.CPU, fallback.CPU)
	l.CPUs = cmp.Or(l.CPUs, fallback.CPUs)
	l.Memory = cmp.Or(l.Memory, fallback.Memory)
	l.Output = cmp.Or(l.Output, fallback.Output)
	l.Calls = cmp.Or(l.Calls, fallback.Calls)
	l.PIDs = cmp.Or(l.PIDs, fallback.PIDs)
	l.Disk = cmp.Or(l.Disk, fallback.Disk)
	return l
}

// Service runs programs. It is safe for concurrent use.
type Service struct {
	o Options
	// builtinLimits are the limits whose default is ours and not the config's.
	builtinLimits []sandbox.Limit
	egress        atomic.Pointer[egress.Guard]
}

// New returns a Service.
func New(o Options) *Service {
	s := &Service{}
	if o.Config.Default.Memory == 0 {
		s.builtinLimits = []sandbox.Limit{sandbox.LimitMemory}
	}
	o.Config = o.Config.withDefaults()
	s.o = o
	s.egress.Store(o.Egress)
	return s
}

// Tools returns code:execute.
func (s *Service) Tools(context.Context) ([]toolroom.Tool, error) {
	id, err := toolroom.ParseID(Tool)
	if err != nil {
		return nil, err
	}
	return []toolroom.Tool{{
		ID:    id,
		Title: "Run a program",
		Description: "Run a Python, JavaScript, TypeScript or shell program in a sandbox, with the other tools as its functions: one program in place of many calls. " +
			"tools.NAMESPACE.NAME(...) calls a tool (await it in JavaScript), search_tools(\"...\") finds one, describe_tool(\"...\") describes its arguments; " +
			"the value is that of `return` or, in Python, of the last expression. What is printed comes back as stdout.",
		InputSchema: json.RawMessage(inputSchema),
		Source:      toolroom.SourceBuiltin,
		Tags:        []string{"code"},
		Timeout:     s.o.Config.Max.Wall + callOverhead,
		// The arguments contain the program's own time limit.
		DefaultTimeout: s.o.Config.Max.Wall + callOverhead,
		Examples: []toolroom.Example{{
			Title:     "Add up in JavaScript",
			Arguments: json.RawMessage(`{"language": "javascript", "code": "return [1, 2, 3].reduce((a, b) => a + b)"}`),
		}},
	}}, nil
}

// callOverhead is the time that a call may take in addition to the program's own time, for
// starting and cleaning up.
const callOverhead = 75 * time.Second

// resultReserve is the time before the call's deadline at which the program is stopped, so
// that it still has a result.
const resultReserve = 300 * time.Millisecond

// Call runs a program.
func (s *Service) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	r, err := parse(req.Arguments)
	if err != nil {
		return nil, err
	}
	if err := s.correctLanguage(r); err != nil {
		return nil, err
	}
	if driver, below := splitRuntime(r.Runtime); s.o.Remote != nil && driver == s.o.Remote.Name() {
		return s.runRemote(ctx, req, r, below)
	}
	if r.Session != "" {
		return s.runInSession(ctx, req, r)
	}
	return s.execute(ctx, req, r, nil)
}

// execute runs a program, starting from the state of its session if it has one.
func (s *Service) execute(ctx context.Context, req *source.Request, r *Request, held *session.Run) (*source.Output, error) {
	limits, err := r.limits(s.o.Config)
	if err != nil {
		return nil, err
	}
	hosts, err := r.hosts()
	if err != nil {
		return nil, err
	}
	dial, err := s.newDial(hosts)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		left := max(time.Until(end)-resultReserve, time.Millisecond)
		limits.Wall = min(limits.Wall, left)
		// Preparation, too, must leave time for a result.
		within, stop := deadline.WithTimeout(ctx, left, engine.ErrWall)
		defer stop()
		ctx = within
	}
	if req.Budget != nil {
		req.Budget.Allow(limits.Calls)
	}
	h, err := s.newHandler(ctx, req, r, held)
	if err != nil {
		return nil, err
	}
	job := engine.Job{
		Run:   req.Call,
		Owner: identity.Owner(req.Identity),
		Program: bridge.Program{
			Language: r.Language, Name: fileNames[r.Language], Source: r.Code, Module: r.Module, Command: r.Command, Stdin: []byte(r.Stdin),
			Inputs: r.inputs, Tools: h.view.tools, Withheld: h.view.withheld, Unknown: h.view.unknown, Seed: h.head.Seed,
			Limits: bridge.Limits{
				Wall: limits.Wall.Milliseconds(), CPU: limits.CPU.Milliseconds(), Memory: limits.Memory, Output: limits.Output,
				Calls: limits.Calls, Parallel: s.o.Config.Parallel,
			},
		},
		Sandbox: s.spec(r, limits),
		Declare: func(awaits bool) string { return h.view.declareUsedTools(r.Code, awaits) },
		Dial:    h.refusals.wrapDial(dial, h.reportRefused),
	}
	job.Sandbox.Egress = hosts
	if f := r.function; f != nil {
		job.Owner, job.Program.Name, job.Layer = functionOwner, f.Name, f.Layer
		job.Program.Env, job.Program.Files, job.Program.Bundled, job.StartAhead = f.Env, f.Files, f.Bundled, f.StartAhead
	}
	if held != nil {
		job.Program.Session, job.Program.State = r.Session, held.State
	}
	h.toolexecLine, h.requestedLimits = r.toolexecLine, r.requestedLimits()
	h.maxCalls = min(limits.Calls, int(run.CallsLeft(ctx)))
	first, further, err := s.route(ctx, r, need{job.Sandbox, toolroom.Isolation(req.Isolation), req.Engine})
	if err != nil {
		return &source.Output{Unsent: true}, err
	}
	return s.runOnEngines(ctx, h, job, limits, first, further)
}

// spec returns the sandbox spec for a request.
func (s *Service) spec(r *Request, l toolroom.ExecutionLimits) sandbox.Spec {
	_, below := splitRuntime(r.Runtime)
	spec := sandbox.Spec{
		Profile: sandbox.Profile(cmp.Or(r.Profile, string(sandbox.Standard))), Guest: s.o.Guest, Args: s.o.GuestArgs,
		Image: r.Image, Runtime: below, BestEffort: r.BestEffort,
		Limits: sandbox.Limits{Wall: l.Wall, CPU: l.CPU, CPUs: l.CPUs, Memory: l.Memory, PIDs: l.PIDs, Disk: l.Disk},
	}
	if r.MemoryBytes == 0 {
		spec.Defaulted = s.builtinLimits
	}
	return spec
}

// ProfileSpec returns the sandbox spec of a program that requests only a profile.
func (s *Service) ProfileSpec(profile string) (sandbox.Spec, error) {
	r := &Request{Program: toolroom.Program{Profile: profile}}
	limits, err := r.limits(s.o.Config)
	return s.spec(r, limits), err
}

var fileNames = map[string]string{"python": "main.py", "javascript": "main.js", "typescript": "main.ts", "shell": "main.sh", "wasm": "main.wasm"}

// runOnEngines runs a program on the first engine of its route. It tries the next engine only
// if the previous one cannot run the program. It does not repeat tool calls that have been
// answered by then.
func (s *Service) runOnEngines(ctx context.Context, h *handler, job engine.Job, limits toolroom.ExecutionLimits, c candidate, further *route) (*source.Output, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	h.cancel = end
	var refusals []string
	for {
		h.startOn(c.engine.Name())
		result, err := c.engine.Run(ctx, job, h)
		err = asBudgetError(h.runError(err))
		if result == nil && toolroom.CodeOf(err) == toolroom.CodeLimitNotEnforceable { // it has not started
			if next, ok := further.next(ctx); ok {
				refusals = append(refusals, toolroom.AsError(err).Message)
				c = next
				continue
			}
		}
		if result == nil {
			result = &engine.Result{Engine: c.engine.Name()}
		}
		if f := result.Outcome.Failure; err == nil && f != nil && f.Kind == bridge.FailUnsupported {
			if next, ok := further.next(ctx); ok {
				refusals = append(refusals, fmt.Sprintf("%s cannot run it (%s)", c.engine.Name(), f.Message))
				c = next
				continue
			}
			if further.named {
				h.engineHint = s.suggestEngines(c.engine.Name(), job.Program)
			}
		}
		why := c.why
		if len(refusals) > 0 {
			why = strings.Join(append(refusals, c.engine.Name()+" is the next engine for "+job.Program.Language), "; ")
		}
		if h.toolexecLine > 0 {
			why = fmt.Sprintf("line %d is of the form name := run(…), which is JavaScript; %s", h.toolexecLine, why)
		}
		if err == nil {
			err = h.saveSession(ctx, job, result)
		}
		return s.output(ctx, h, job, limits, result, why, err)
	}
}

// output converts the outcome of a run to the source's output.
func (s *Service) output(ctx context.Context, h *handler, job engine.Job, limits toolroom.ExecutionLimits, result *engine.Result, why string, err error) (*source.Output, error) {
	what := "the program"
	if job.Owner == functionOwner {
		what = "the function"
	}
	err = engine.WithTime(err, what, limits.Wall)
	x := &toolroom.Execution{
		Language: job.Program.Language, Engine: result.Engine, Why: why, Isolation: result.Isolation,
		Profile: string(job.Sandbox.Profile), Asked: h.requestedLimits, Limits: limits, Exit: result.Outcome.Exit, Session: job.Program.Session,
		Calls: h.journal.Calls(), Refused: h.refusals.all(), Start: result.Start,
	}
	if result.Held != nil {
		x.Held = map[string]string{}
		for limit, how := range result.Held {
			x.Held[string(limit)] = how
		}
	}
	x.Stdout, x.StdoutHidden = s.truncateOutput(ctx, h, "stdout", h.stdout.String())
	x.Stderr, x.StderrHidden = s.truncateOutput(ctx, h, "stderr", h.stderr.String())
	out := &source.Output{Execution: x, CPU: result.CPU, PeakMemory: result.PeakMemory}
	if out.CPU == 0 {
		out.CPU = time.Duration(result.Outcome.CPU) * time.Millisecond
	}
	if out.PeakMemory == 0 {
		out.PeakMemory = result.Outcome.Memory
	}
	if len(x.Calls) == 0 && job.Sandbox.Profile != sandbox.Dev && job.Dial == nil && x.Session == "" {
		out.Effects = toolroom.EffectsNone // nothing of a closed sandbox remains
	}
	switch f := result.Outcome.Failure; {
	case err != nil:
		return out, addMemoryHint(err, limits.Memory)
	case f != nil:
		if h.function != nil {
			f = h.function.hideWrapper(f)
		}
		e := failureError(f)
		if f.Type == "Trap" { // the reason is what the module printed before
			e.Message += lastLines(x.Stderr)
		}
		e.Hint = cmp.Or(e.Hint, h.engineHint, noFilesHint(f, result), h.view.hiddenNamespaceHint())
		if h.toolexecLine > 0 && f.Kind == bridge.FailSyntax {
			e.Hint = fmt.Sprintf("name := run(…) in line %d made it JavaScript: in Python write name = run(…)", h.toolexecLine)
		}
		return out, e
	case x.Exit != 0:
		return out, exitError(x, h.exceededCalls() || result.Outcome.Calls > limits.Calls)
	}
	if h.function != nil && h.function.Output != "" && result.Outcome.Value == nil {
		x.Stdout, x.StdoutHidden = "", nil // it is the value
		out.Value, err = h.printedValue()
		return out, err
	}
	if h.function != nil {
		if content, ok := contentOf(result.Outcome.Value); ok {
			out.Content = content
			return out, nil
		}
	}
	if out.Value, err = bridge.ToJSON(result.Outcome.Value); err != nil {
		return out, toolroom.Errorf(toolroom.CodeExecutionFailed, "cannot encode the program's value as JSON: %w", err)
	}
	return out, nil
}

// Close closes the engines.
func (s *Service) Close() error {
	var all []error
	for _, e := range s.o.Engines {
		all = append(all, e.Close())
	}
	return errors.Join(all...)
}

// Describe returns the description of this source.
func (s *Service) Describe() source.Description {
	return source.Description{Kind: toolroom.SourceBuiltin, Title: "Code mode", State: "ready"}
}

// namespaceMention matches a namespace in a program: tools.github.x, cli("git"),
// mcp["github"], or the id in call_tool("github:create_issue").
var namespaceMention = pattern.Lazy(`\b(?:tools|mcp|cli)(?:\.|\[["']|\(["'])([\pL_][\pL\pN_-]*)|\b(?:call_tool|run)\(\s*["']([\pL_][\pL\pN_-]*):`)

// discoverSources lists the tools of the sources that a program mentions and that have not
// been listed yet, because a program gets its tools before it runs. A source that cannot be
// listed has no tools; a call of one reports the reason.
func (s *Service) discoverSources(ctx context.Context, text string) {
	if s.o.Runner.Discover == nil {
		return
	}
	known := map[string]bool{}
	for namespace := range s.o.Catalog.Namespaces(nil) {
		known[identifier(namespace)] = true
	}
	for _, m := range namespaceMention().FindAllStringSubmatch(text, maxUnknown) {
		namespace := m[1] + m[2]
		if id := identifier(namespace); !known[id] {
			known[id] = true
			_ = s.o.Runner.Discover(ctx, namespace+":any")
		}
	}
}
