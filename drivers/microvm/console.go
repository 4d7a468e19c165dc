package microvm

import (
	"encoding/json"
	"strings"

	"github.com/toolroom/toolroom/internal/guest/vm"
	"github.com/toolroom/toolroom/internal/proc"
)

// console keeps the end of the output of a VM's kernel, its first process and its
// monitor, and finds the report in it.
type console struct{ proc.Tail }

// newConsole returns a console with room for a report and the end of the kernel's output.
func newConsole() *console { return &console{proc.Tail{Limit: 64 << 10}} }

// report returns the report of the first process, if it has printed one.
func (c *console) report() (r vm.Report, ok bool) {
	_, after, found := strings.Cut(c.String(), "\n"+vm.ReportMark)
	if !found {
		return r, false
	}
	line, _, _ := strings.Cut(after, "\n")
	return r, json.Unmarshal([]byte(strings.TrimSpace(line)), &r) == nil
}

// end returns the end of the output, for people.
func (c *console) end() string {
	const shown = 2 << 10
	text := strings.TrimSpace(c.String())
	text = text[max(0, len(text)-shown):]
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\r", ""), "?")
}
