package run

import (
	"cmp"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/secret"
)

// logs collects the first lines that a tool logs, for its receipt. The output of a program is
// added at the end.
type logs struct {
	mu     sync.Mutex
	lines  []toolroom.LogLine
	bytes  int
	hidden int
}

func (l *logs) add(now time.Time, line *toolroom.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := len(line.Message) + len(line.Data)
	if len(l.lines) == receipt.MaxLogLines || l.bytes+size > receipt.MaxLogBytes {
		l.hidden++
		return
	}
	l.bytes += size
	l.lines = append(l.lines, toolroom.LogLine{Time: now.UTC(), Level: cmp.Or(line.Level, "info"), Message: line.Message, Data: line.Data})
}

// forReceipt returns the lines without secrets, followed by the output of the program.
func (l *logs) forReceipt(secrets *secret.Redactor, ended time.Time, x *toolroom.Execution) (lines []toolroom.LogLine, hidden int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		line.Message, line.Data = secrets.Text(line.Message), secrets.Redact(line.Data)
		if len(line.Data) > 0 && !json.Valid(line.Data) {
			line.Data = nil
		}
		lines = append(lines, line)
	}
	if x == nil {
		return lines, l.hidden
	}
	for _, printed := range []struct{ stream, text string }{{"stdout", x.Stdout}, {"stderr", x.Stderr}} {
		if printed.text != "" {
			text := strings.ToValidUTF8(printed.text[:min(len(printed.text), receipt.MaxPrintBytes)], "")
			lines = append(lines, toolroom.LogLine{Time: ended.UTC(), Level: printed.stream, Message: text})
		}
	}
	return lines, l.hidden
}
