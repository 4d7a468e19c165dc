package microvm

import (
	"encoding/json"
	"strings"

	"github.com/toolroom/toolroom/internal/guest/vm"
	"github.com/toolroom/toolroom/internal/proc"
)

// console keeps the end of what a machine's kernel and first process, and its
// monitor, have printed, and finds the report in it.
type console struct{ proc.Tail }

// newConsole makes one with room for a report and the kernel's last words.
func newConsole() *console { return &console{proc.Tail{Limit: 64 << 10}} }

// report is what the first process said, if it came to that.
func (c *console) report() (r vm.Report, ok bool) {
	_, after, found := strings.Cut(c.String(), "\n"+vm.ReportMark)
	if !found {
		return r, false
	}
	line, _, _ := strings.Cut(after, "\n")
	return r, json.Unmarshal([]byte(strings.TrimSpace(line)), &r) == nil
}

// end is the end of the text, for people.
func (c *console) end() string {
	const shown = 2 << 10
	text := strings.TrimSpace(c.String())
	text = text[max(0, len(text)-shown):]
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\r", ""), "?")
}
