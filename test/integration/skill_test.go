//go:build integration

package integration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The Inspector compares the digests of a server's skills with the files that it reads
// through Toolroom.
func TestSkillsOfAServerAreVerifiedByTheInspector(t *testing.T) {
	r := newRoom(t, object{"typescript": stdioSource([]string{nodeProgram(t), nodeFile(t, "server.mjs"), "stdio"})})
	s := r.serveListed()
	out := r.runProgram(nodeProgram(t), npmProgram(t, "mcp-inspector"), "--cli", "--server-url", s.url+"/mcp", "--transport", "http",
		"--protocol-era", "modern", "--method", "skills/list", "--verify", "--format", "json", "-q")
	type file struct{ URI, Status string }
	type verified struct {
		URI, Outcome string
		Files        []file
	}
	want := verified{"skill://greeting/SKILL.md", "verified", []file{
		{"skill://greeting/SKILL.md", "verified"}, {"skill://greeting/references/GUIDE.md", "verified"},
	}}
	if diff := cmp.Diff(want, decode[verified](t, out.stdout)); diff != "" {
		t.Errorf("what the Inspector verified (-want +got)\n%s", diff)
	}
}
