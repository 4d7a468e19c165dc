package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestASubCommandWithoutAToolIsACallOfTheProgram(t *testing.T) {
	t.Parallel()
	s := open(t, script(t, `case "$1" in --help) printf 'Usage: p [-C <dir>] <command>\n  -C <dir>   run there\n\nCommands:\n  status   tell\n' ;; *) echo "$@" ;; esac`))
	if _, err := s.Tools(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, arguments, want string }{
		{"rev-parse", ``, "rev-parse"},
		{"rev_parse", `{"_": ["HEAD"]}`, "rev-parse HEAD"},
		{"log", `{"_": "HEAD", "max_count": 1, "C": "/tmp"}`, "-C /tmp log --max-count=1 HEAD"},
	} {
		tool, arguments, ok := s.Subcommand(c.name, json.RawMessage(c.arguments))
		if !ok {
			t.Errorf("%s is no sub-command", c.name)
			continue
		}
		r, _, err := run(t.Context(), s, tool, string(arguments), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, strings.TrimSpace(r.Stdout)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.name, c.arguments, diff)
		}
	}
	for _, name := range []string{"", "-x", "--exec", "a b", "../x", "a/b", "a\x00", "$(id)", ".."} {
		if _, arguments, ok := s.Subcommand(name, nil); ok {
			t.Errorf("%q became a sub-command: %s", name, arguments)
		}
	}
	if _, _, ok := s.Subcommand("log", json.RawMessage(`[1]`)); ok {
		t.Error("a list was taken for arguments")
	}
}
