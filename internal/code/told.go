package code

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
)

// Told is what a model reads of a program that has run, without knowing our
// envelope: its error, what it printed, and its value. Of what is hidden it says
// where to read on: readOn is a format for the handle.
func Told(r *toolroom.Result, readOn string) string {
	var text strings.Builder
	part := func(name, content string) {
		if content == "" {
			return
		}
		if text.Len() > 0 {
			text.WriteString("\n")
		}
		fmt.Fprintf(&text, "%s:\n%s", name, strings.TrimRight(content, "\n"))
	}
	more := func(h *toolroom.Hidden) string {
		if h == nil {
			return ""
		}
		return fmt.Sprintf("\n[%d bytes hidden; read them with "+readOn+"]", h.Bytes, h.Handle)
	}
	if r.Error != nil {
		part("error", failureText(r.Error))
	}
	if x := r.Execution; x != nil {
		part("stdout", x.Stdout+more(x.StdoutHidden))
		part("stderr", x.Stderr+more(x.StderrHidden))
		part("refused connections", refusals(x.Refused))
		part("limits", strings.Join(x.Lowered(), "\n"))
	}
	if r.Error == nil {
		part("value", r.Text())
	}
	return text.String()
}

// refusals are lines of what a program could not reach.
func refusals(list []toolroom.RefusedConnection) string {
	var text strings.Builder
	for _, c := range list {
		fmt.Fprintf(&text, "%s (%d times): %s\n", cmp.Or(c.Address, "others"), c.Times, c.Reason)
	}
	return text.String()
}

// failureText is the traceback of the author's code, where there is one.
func failureText(e *toolroom.Error) string {
	text := fmt.Sprintf("%s: %s", e.Code, e.Message)
	if trace, ok := e.Details["traceback"].(string); ok {
		text = strings.TrimRight(trace, "\n")
	}
	if e.Hint != "" {
		text += "\n" + e.Hint
	}
	return text
}
