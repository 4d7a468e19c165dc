package mcp_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom/source"
	"github.com/toolroom/toolroom/source/sourcetest"
)

func TestTheContractOfSources(t *testing.T) {
	t.Parallel()
	hanging := filepath.Join(t.TempDir(), "hanging")
	if err := os.WriteFile(hanging, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sourcetest.Run(t, sourcetest.Config{
		Namespace: "odd",
		Open:      func(t *testing.T) source.Source { return odd(t, "contract", hangingVariable+"="+hanging) },
		Good:      sourcetest.Call{Tool: "big", Arguments: `{"v": 12345678901234567890}`, Want: `{"n":9007199254740993,"args":{"v":12345678901234567890}}`},
		Failing:   sourcetest.Call{Tool: "fails", Arguments: `{}`},
		Slow:      sourcetest.Call{Tool: "hangs", Arguments: `{}`},
		Running:   func() int { return hangingCalls(hanging) },
		Bound:     20 * time.Second,
		Skip:      sourcetest.Skip{Change: "the server tells of changes in mid-call; see TestChangedToolsAreNoticed"},
	})
}

// hangingCalls counts the calls that hang in servers which are still there.
func hangingCalls(file string) int {
	notes, err := os.Open(file)
	if err != nil {
		return 0
	}
	defer notes.Close()
	n := 0
	for lines := bufio.NewScanner(notes); lines.Scan(); {
		var sign string
		var pid int
		if _, err := fmt.Sscan(lines.Text(), &sign, &pid); err != nil || syscall.Kill(pid, 0) != nil {
			continue
		}
		if sign == "+" {
			n++
		} else {
			n--
		}
	}
	return max(n, 0)
}
