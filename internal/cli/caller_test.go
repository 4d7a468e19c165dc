package cli

import (
	"testing"

	"github.com/toolroom/toolroom"
)

// Bytes that JSON cannot hold all become the same character: two keys would be one.
func TestWhoCallsIsNamedInText(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]caller{
		"key": {key: "a\xff"}, "agent": {agent: "a\xff"}, "provider": {provider: "a\xff"}, "skill": {skill: "a\xff"}, "set": {set: "a\xff"}, "session": {session: "a\xff"},
	} {
		if _, err := w.call(); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
			t.Errorf("--%s: %v", name, err)
		}
	}
	w := caller{key: "ä", agent: "ö"}
	if _, err := w.call(); err != nil {
		t.Error(err)
	}
}
