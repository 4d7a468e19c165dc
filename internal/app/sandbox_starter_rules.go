package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/restrict"
	"github.com/toolroom/toolroom/sandbox"
)

// mounts returns the mounts that enforce the rules about files and programs on what a
// sandbox shows, in the order in which they must be made. Rules name paths of this machine,
// or paths in the sandbox if the sandbox shows something at another path.
func (st *sandboxStarter) mounts(ctx context.Context, e *hosted.Engine, shows exposure, rules []toolroom.Effect) ([]sandbox.Folder, error) {
	rules = slices.DeleteFunc(slices.Clone(rules), func(r toolroom.Effect) bool {
		return r.Kind != toolroom.EffectFile && r.Kind != toolroom.EffectCommand
	})
	if len(rules) == 0 || !e.Probe(ctx).Folders {
		return nil, nil
	}
	v := restrict.View{Scratch: st.app.tempFolder(), Path: st.app.searchPath()}
	if err := os.MkdirAll(v.Scratch, 0o700); err != nil {
		return nil, err
	}
	if e.Name() == config.RuntimeProcess {
		for _, name := range append(lockdown.System().Only, "etc") {
			v.Shown = append(v.Shown, lockdown.Bind{Source: "/" + name})
		}
		if shows.path != "" {
			v.Path = append(v.Path, shows.path)
		}
	}
	places, err := st.places(shows)
	if err != nil {
		return nil, err
	}
	for _, at := range places {
		v.Shown = append(v.Shown, lockdown.Bind{Source: at.source, Writable: at.writable})
		if at.moved() {
			rules = append(rules, moveRules(rules, at)...)
		}
	}
	binds, err := restrict.Plan(rules, v)
	if err != nil {
		return nil, err
	}
	var out []sandbox.Folder
	for _, b := range binds {
		own := lockdown.Bind{Source: "/"} // what shows the path where it is
		for _, at := range places {
			switch {
			case !within(b.Target, at.source):
			case !at.moved():
				if len(at.source) >= len(own.Source) {
					own = lockdown.Bind{Source: at.source, Writable: at.writable}
				}
			default:
				out = append(out, sandbox.Folder{Source: b.Source, Target: at.target + strings.TrimPrefix(b.Target, at.source), Writable: b.Writable && at.writable})
			}
		}
		if own.Source == "/" && !(e.Name() == config.RuntimeProcess && (installed(b.Target) || within(b.Target, "/etc"))) {
			continue
		}
		out = append(out, sandbox.Folder{Source: b.Source, Target: b.Target, Writable: b.Writable && own.Writable})
		for _, at := range places {
			if at.moved() && at.target != b.Target && within(at.target, b.Target) {
				return nil, st.unenforceable("it shows %s as %s, within %s", at.source, at.target, b.Target)
			}
		}
	}
	return out, nil
}

func (st *sandboxStarter) unenforceable(format string, args ...any) error {
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the policy's rules about files cannot be enforced in the sandbox of the source %s: %s", st.name, fmt.Sprintf(format, args...)).
		WithHint("name other folders in sandbox.read and sandbox.write").WithCLIHint("see the rules: toolroom policy show")
}

// mountPlace is the path at which a sandbox shows a folder or file of this machine. source
// is free of symbolic links.
type mountPlace struct {
	source, target string
	writable       bool
}

// moved reports whether the path in the sandbox differs from that on this machine.
func (p mountPlace) moved() bool { return p.source != p.target }

func (st *sandboxStarter) places(shows exposure) ([]mountPlace, error) {
	var all, own []mountPlace
	for _, f := range shows.folders {
		source, err := filepath.EvalSymlinks(f.Source)
		if err != nil {
			return nil, err
		}
		at := mountPlace{source, filepath.Clean(cmp.Or(f.Target, f.Source)), f.Writable}
		if slices.Contains(shows.parents, f) { // a part of another one, which it shows as that does
			own = append(own, at)
		} else {
			all = append(all, at)
		}
	}
	for _, a := range all {
		for _, b := range all {
			if a != b && a.moved() && a.target != sourceHome && b.target != sourceHome && (within(a.source, b.source) || within(b.source, a.source)) && (a.writable || b.writable) {
				return nil, st.unenforceable("it shows %s as %s, and %s too", a.source, a.target, b.target)
			}
		}
	}
	return append(all, own...), nil
}

// moveRules translates rules about paths inside a sandbox into rules about the folder of this
// machine that the sandbox shows at a place.
func moveRules(rules []toolroom.Effect, at mountPlace) []toolroom.Effect {
	var out []toolroom.Effect
	for _, r := range rules {
		if r.Kind != toolroom.EffectFile {
			continue
		}
		pattern := strings.Split(strings.TrimPrefix(r.Target, "/"), "/")
		for _, rest := range restOfPattern(pattern, strings.Split(at.target[1:], "/")) {
			moved := r
			moved.Target = strings.Join(append([]string{at.source}, rest...), "/")
			out = append(out, moved)
		}
	}
	return out
}

// restOfPattern returns the rest of a pattern below a folder. There is more than one if **
// may match any part of the folder's path. The rest is empty if the pattern names the
// folder itself or a parent of it.
func restOfPattern(pattern, folder []string) [][]string {
	switch {
	case len(folder) == 0:
		return [][]string{pattern}
	case len(pattern) == 0:
		return [][]string{nil}
	case pattern[0] == "**":
		return append(restOfPattern(pattern[1:], folder), restOfPattern(pattern, folder[1:])...)
	case restrict.Glob(pattern[0], folder[0]):
		return restOfPattern(pattern[1:], folder[1:])
	}
	return nil
}

// enforcement identifies what the sandbox of a program enforces.
type enforcement struct {
	rules string // equal for equal rules
	files string // changes when a file that the rules are about is new or was replaced
}

// enforcement returns the enforcement of a program that is started now.
func (st *sandboxStarter) enforcement(ctx context.Context, s proc.Spec, rules []toolroom.Effect) (out enforcement, err error) {
	e, err := st.engine()
	if err != nil {
		return out, err
	}
	shows, err := st.exposure(ctx, e, s)
	if err != nil {
		return out, err
	}
	mounts, err := st.mounts(ctx, e, shows, rules)
	if err != nil {
		return out, err
	}
	places, err := st.places(shows)
	if err != nil {
		return out, err
	}
	texts := make([]string, len(rules))
	for i, r := range rules {
		texts[i] = r.String()
	}
	slices.Sort(texts)
	out.rules = fmt.Sprintf("%q", slices.Compact(texts))
	h := sha256.New()
	for _, f := range mounts {
		at := f.Target
		for _, p := range places {
			if p.moved() && within(at, p.target) {
				at = p.source + strings.TrimPrefix(at, p.target)
				break
			}
		}
		id, err := fileIdentity(at)
		if err != nil {
			return out, err
		}
		fmt.Fprintf(h, "%q %q %t %s\n", f.Source, f.Target, f.Writable, id)
	}
	out.files = hex.EncodeToString(h.Sum(nil))
	return out, nil
}
