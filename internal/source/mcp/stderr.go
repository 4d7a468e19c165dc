package mcp

import (
	"strings"

	"github.com/toolroom/toolroom/internal/proc"
)

// lastLines returns the last lines of a server's stderr, for error messages.
func lastLines(stderr *proc.Tail) string {
	const lines = 5
	all := strings.Split(strings.TrimSpace(strings.ToValidUTF8(stderr.String(), "")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
