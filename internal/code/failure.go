package code

import (
	"context"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/artifact"
)

// failed is the error of a program that failed: what, where, and what to write
// instead. The error of a tool that the program did not catch keeps its code in
// the details.
func failed(f *bridge.Failure) *toolroom.Error {
	code := toolroom.CodeExecutionFailed
	switch f.Kind {
	case bridge.FailLimit:
		code = toolroom.CodeResourceLimit
	case bridge.FailUnsupported:
		code = toolroom.CodeUnsupported
	case bridge.FailCancelled:
		code = toolroom.CodeCancelled
	}
	message := f.Error()
	if f.Line > 0 {
		message = place(f) + ": " + message
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
	set("limit", f.Limit, f.Limit != "")
	if f.Limit == "session" {
		e.Hint = "give up what the next program needs no more (set large variables to null), or keep large data with artifacts.put; the session is as it was before this program"
	}
	if f.Tool != nil {
		set("tool", f.Tool.Tool, f.Tool.Tool != "")
		set("code", string(f.Tool.Code), true)
		e.Hint, e.Retryable = f.Tool.Hint, f.Tool.Retryable
	}
	return e
}

func place(f *bridge.Failure) string {
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

// exited is the error of a command that ended with another code than 0.
func exited(x *toolroom.Execution) error {
	e := toolroom.Errorf(toolroom.CodeExecutionFailed, "the program ended with exit code %d", x.Exit)
	if last := lastLine(x.Stderr); last != "" {
		e.Message += ": " + last
	}
	e.Details = map[string]any{"exit_code": x.Exit}
	return e
}

func lastLine(text string) string {
	text = strings.TrimRight(text, "\n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// show cuts output that is too long to show and keeps the whole of it.
func (s *Service) show(ctx context.Context, h *host, name, text string) (string, *toolroom.Hidden, error) {
	text = s.o.Runner.Secrets.Text(text) // before it is cut: half a secret is one too much
	limit := s.o.Config.ShownOutput
	if len(text) <= limit {
		return text, nil, nil
	}
	a, err := s.o.Artifacts.Put(ctx, h.request.Identity.Key(), artifact.Result, name, "text/plain", strings.NewReader(text))
	if err != nil {
		return "", nil, err
	}
	// The end of an output says more than its beginning: two thirds of it.
	head, tail := limit/3, len(text)-(limit-limit/3)
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + "\n[…]\n" + text[tail:], &toolroom.Hidden{Bytes: int64(tail - head), Handle: a.Handle}, nil
}
