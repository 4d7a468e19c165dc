package mcp

import (
	"strings"

	"github.com/toolroom/toolroom/internal/proc"
)

// lastLines are those of what a server has said on stderr, for an error message.
func lastLines(stderr *proc.Tail) string {
	const lines = 5
	all := strings.Split(strings.TrimSpace(strings.ToValidUTF8(stderr.String(), "")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
