package code

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
)

// Format formats a result for a model that does not know our envelope: its error, its output
// and its value. For hidden parts it says how to read on; readOn is a format for the
// handle.
func Format(r *toolroom.Result, readOn string) string {
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
		if h.Handle == "" {
			return fmt.Sprintf("\n[%d bytes hidden; they were not stored]", h.Bytes)
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
		part("warnings", warnings(x.Calls))
	}
	if r.Error == nil {
		part("value", r.Text())
	}
	return text.String()
}

// refusals lists the refused connections, one per line.
func refusals(list []toolroom.RefusedConnection) string {
	var text strings.Builder
	for _, c := range list {
		fmt.Fprintf(&text, "%s (%d times): %s\n", cmp.Or(c.Address, "others"), c.Times, c.Reason)
	}
	return text.String()
}

// maxWarnings is the number of warnings that a formatted result repeats.
const maxWarnings = 5

// warnings lists the first warnings of a program's calls, one per line.
func warnings(calls []toolroom.ExecutionCall) string {
	var text strings.Builder
	n := 0
	for _, c := range calls {
		for _, w := range c.Warnings {
			if n++; n <= maxWarnings {
				text.WriteString(w.Message + "\n")
			}
		}
	}
	if n > maxWarnings {
		fmt.Fprintf(&text, "%d more\n", n-maxWarnings)
	}
	return text.String()
}

// failureText returns the traceback of the author's code, if there is one.
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
