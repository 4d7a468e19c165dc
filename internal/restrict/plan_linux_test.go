package restrict_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/restrict"
)

// What a sandbox mounts over a part of a folder stays in force when a rule about another part
// mounts the folder anew.
func TestRulesDoNotUndoTheMountsOfASandbox(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fixed, private := filepath.Join(top, "a", "fixed"), filepath.Join(top, "a", "private")
	for _, dir := range []string{fixed, private} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	binds, err := restrict.Plan([]toolroom.Effect{{Kind: toolroom.EffectFile, Mode: "write", Target: top + "/new.txt"}}, restrict.View{
		Shown: []lockdown.Bind{{Source: top, Writable: true}, {Source: fixed}}, Hidden: []string{private}, Scratch: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	last := func(target string) lockdown.Bind {
		for _, b := range slices.Backward(binds) {
			if b.Target == target {
				return b
			}
		}
		return lockdown.Bind{}
	}
	if b := last(filepath.Join(top, "a")); !b.Writable {
		t.Errorf("nothing mounts the folder around them anew, so the test says nothing: %+v", binds)
	}
	if b := last(fixed); b.Source != fixed || b.Writable {
		t.Errorf("the read-only folder is %+v", b)
	}
	if b := last(private); b.Source == "" || b.Source == private {
		t.Errorf("the hidden folder is %+v", b)
	}
}
