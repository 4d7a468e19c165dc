package microvm

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/toolroom/toolroom/internal/guest/vm"
)

// console keeps the end of what a machine's kernel and first process, and its
// monitor, have printed, and finds the report in it.
type console struct {
	mu   sync.Mutex
	text []byte
}

// consoleSize has room for a report and the kernel's last words.
const consoleSize = 64 << 10

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, p...)
	if over := len(c.text) - consoleSize; over > 0 {
		c.text = append(c.text[:0], c.text[over:]...)
	}
	return len(p), nil
}

// report is what the first process said, if it came to that.
func (c *console) report() (r vm.Report, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, after, found := bytes.Cut(c.text, []byte("\n"+vm.ReportMark))
	if !found {
		return r, false
	}
	line, _, _ := bytes.Cut(after, []byte("\n"))
	return r, json.Unmarshal(bytes.TrimSpace(line), &r) == nil
}

// end is the end of the text, for people.
func (c *console) end() string {
	const shown = 2 << 10
	c.mu.Lock()
	defer c.mu.Unlock()
	text := bytes.TrimSpace(c.text)
	if len(text) > shown {
		text = text[len(text)-shown:]
	}
	return string(bytes.ToValidUTF8(bytes.ReplaceAll(text, []byte("\r"), nil), []byte("?")))
}
