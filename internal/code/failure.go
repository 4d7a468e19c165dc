package code

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/sandbox"
)

// failureError returns the error of a failed program: what failed, where, and what to write
// instead. If the cause is an uncaught tool error, the details contain its code.
func failureError(f *bridge.Failure) *toolroom.Error {
	code := toolroom.CodeExecutionFailed
	switch f.Kind {
	case bridge.FailLimit:
		code = toolroom.CodeResourceLimit
	case bridge.FailUnsupported:
		code = toolroom.CodeUnsupported
	case bridge.FailCancelled:
		code = toolroom.CodeCancelled
	}
	if f.Limit == "calls" || f.Tool != nil && f.Tool.Code == toolroom.CodeBudgetExceeded {
		code = toolroom.CodeBudgetExceeded
	}
	message := f.Error()
	if f.Line > 0 {
		message = formatPlace(f) + ": " + message
	}
	e := toolroom.Errorf(code, "%s", message)
	e.Details = map[string]any{"kind": string(f.Kind)}
	set := func(key string, value any, is bool) {
		if is {
			e.Details[key] = value
		}
	}
	set("type", f.Type, f.Type != "")
	set("line", f.Line, f.Line > 0)
	set("column", f.Column, f.Column > 0)
	set("traceback", f.Trace, f.Trace != "")
	e.Limit = f.Limit
	if f.Limit == "session" {
		e.Hint = "drop data that later programs do not need (set large variables to null), or store large data with artifacts.put; the session is unchanged by this program"
	}
	if f.Tool != nil {
		set("tool", f.Tool.Tool, f.Tool.Tool != "")
		set("code", string(f.Tool.Code), true)
		for _, of := range []string{"steps", "failed"} { // of a chain
			set(of, f.Tool.Details[of], f.Tool.Details[of] != nil)
		}
		e.Hint, e.Retryable = f.Tool.Hint, f.Tool.Retryable
	}
	if e.Hint == "" {
		e.Hint = missingNameHint(message)
	}
	return e
}

// minSandboxMemory is the memory that a sandbox may need for itself, in bytes.
const minSandboxMemory = 16 << 20

// addMemoryHint adds a hint to the error of a sandbox that did not start or broke off, if its
// memory limit is so low that it may be the cause.
func addMemoryHint(err error, memory int64) error {
	switch code := toolroom.CodeOf(err); {
	case memory <= 0 || memory >= minSandboxMemory:
		return err
	case code != toolroom.CodeExecutionFailed && code != toolroom.CodeSandboxUnavailable:
		return err
	}
	return toolroom.AsError(err).WithCLIHint("").
		WithHint("its limit of memory, %d bytes, may be less than the sandbox itself needs: allow %d or more", memory, minSandboxMemory)
}

// noFilesHint returns the hint for a program that did not find a file because its engine has
// none, or "".
func noFilesHint(f *bridge.Failure, r *engine.Result) string {
	if f.Type != "FileNotFoundError" || r.Held[sandbox.LimitDisk] != engine.NoFiles {
		return ""
	}
	return fmt.Sprintf("programs have no files in the engine %s: choose the runtime process, or another that has a folder for them", r.Engine)
}

// hiddenNamespaceHint says how to reach tools whose namespace has the name of an input, or
// returns "" if there are none.
func (v *view) hiddenNamespaceHint() string {
	if v.hiddenNamespace == "" {
		return ""
	}
	return fmt.Sprintf("%s is an input of this program: the tools of that name are tools.%[1]s", v.hiddenNamespace)
}

var (
	missingModule = regexp.MustCompile(`No module named '([\w.]+)'`)
	missingGlobal = regexp.MustCompile(`(fetch|XMLHttpRequest|WebSocket|require|process|Buffer|module) is not defined`)
	// networkPackages are packages and globals by which programs reach the network.
	networkPackages = []string{"requests", "httpx", "aiohttp", "urllib3", "websockets", "boto3", "fetch", "XMLHttpRequest", "WebSocket"}
)

// missingNameHint says what to use in place of the module or global that the message reports
// as missing, or returns "".
func missingNameHint(message string) string {
	found := missingModule.FindStringSubmatch(message)
	if found == nil {
		found = missingGlobal.FindStringSubmatch(message)
	}
	if found == nil {
		return noNetworkHint(message)
	}
	name, _, _ := strings.Cut(found[1], ".")
	if slices.Contains(networkPackages, name) {
		return "programs have no network of their own: call a tool that fetches, such as web:fetch, or release a function with dependencies and egress as a tool"
	}
	if missingGlobal.MatchString(message) {
		return "this is JavaScript without Node.js: call tools for files, processes and the web; a function with npm packages can be released as a tool"
	}
	return "programs have the standard library and no packages: call a tool instead, or release a function that names its packages as a tool"
}

// noNetworkHint says how a program gets access to the network, if its output shows that it
// failed because it has none.
func noNetworkHint(output string) string {
	if !egress.LacksNetwork(output) {
		return ""
	}
	return "it reaches only the hosts that are named: egress in a function's header, for example egress = [\"example.com\"], or --egress of a program"
}

// formatPlace returns the file, line and column of a failure.
func formatPlace(f *bridge.Failure) string {
	var b strings.Builder
	b.WriteString(f.File)
	b.WriteString(" line ")
	b.WriteString(strconv.Itoa(f.Line))
	if f.Column > 0 {
		b.WriteString(", column ")
		b.WriteString(strconv.Itoa(f.Column))
	}
	return b.String()
}

// exitError returns the error of a command with an exit code other than 0. exceededCalls
// means that it asked for more calls than its limit.
func exitError(x *toolroom.Execution, exceededCalls bool) error {
	code := toolroom.CodeExecutionFailed
	if exceededCalls {
		code = toolroom.CodeBudgetExceeded
	}
	e := toolroom.Errorf(code, "the program ended with exit code %d", x.Exit)
	if last := lastLine(x.Stderr); last != "" {
		e.Message += ": " + last
	}
	e.Details = map[string]any{"exit_code": x.Exit}
	return e.WithHint("%s", noNetworkHint(x.Stderr))
}

// lastLines returns a colon and the last few lines of a text, or "" if it is blank.
func lastLines(text string) string {
	const most = 5
	lines := strings.Split(strings.TrimSpace(text), "\n")
	text = strings.TrimSpace(strings.Join(lines[max(len(lines)-most, 0):], "\n"))
	if text == "" {
		return ""
	}
	return ":\n" + text
}

func lastLine(text string) string {
	text = strings.TrimRight(text, "\n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// truncateOutput truncates long output and stores the whole as an artifact. A failure to
// store it is not an error, because the program has already run: then Hidden has no handle.
func (s *Service) truncateOutput(ctx context.Context, h *handler, name, text string) (string, *toolroom.Hidden) {
	text = s.o.Runner.Secrets.Text(text) // before truncating, because half a secret would not be recognised
	limit := s.o.Config.ShownOutput
	if len(text) <= limit {
		return text, nil
	}
	a, err := s.o.Artifacts.PutResult(context.WithoutCancel(ctx), identity.Owner(h.request.Identity), name, "text/plain", []byte(text), false)
	if err != nil {
		s.o.Runner.Log.Warn("cannot store the output of a program", "call", h.request.Call, "output", name, "bytes", len(text), "error", err)
	}
	// The end of an output says more than the beginning, so it gets two thirds.
	head, tail := limit/3, len(text)-(limit-limit/3)
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + "\n[…]\n" + text[tail:], &toolroom.Hidden{Bytes: int64(tail - head), Handle: a.Handle}
}
