package app

import (
	"crypto/rand"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
)

// eachLeaf calls visit for each key of a part of the config that holds a value: first as it
// is, and then with the key changed in place. It allocates sections.
func eachLeaf(v reflect.Value, path string, visit func(key string, changed bool)) {
	switch v.Kind() {
	case reflect.Pointer:
		before := reflect.ValueOf(v.Interface())
		if v.IsNil() {
			visit(path, false)
			v.Set(reflect.New(v.Type().Elem()))
			visit(path, true)
		}
		if v.Type().Elem().Kind() == reflect.Struct {
			eachLeaf(v.Elem(), path, visit)
		}
		v.Set(before)
	case reflect.Struct:
		for i := range v.NumField() {
			name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			switch {
			case name == "-" || !v.Type().Field(i).IsExported():
			case options == "inline":
				eachLeaf(v.Field(i), path, visit)
			default:
				eachLeaf(v.Field(i), strings.TrimPrefix(path+"."+name, "."), visit)
			}
		}
	default:
		before := reflect.ValueOf(v.Interface())
		visit(path, false)
		v.Set(another(v.Type(), before))
		visit(path, true)
		v.Set(before)
	}
}

// another returns a value that differs from before.
func another(t reflect.Type, before reflect.Value) reflect.Value {
	out := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.String:
		out.SetString(before.String() + "changed")
	case reflect.Bool:
		out.SetBool(!before.Bool())
	case reflect.Int, reflect.Int64:
		out.SetInt(before.Int() + 7*int64(time.Second))
	case reflect.Float64:
		out.SetFloat(before.Float() + 7)
	case reflect.Uint8:
		out.SetUint('1')
	case reflect.Slice:
		out.Set(reflect.Append(out, another(t.Elem(), reflect.Zero(t.Elem()))))
	case reflect.Map:
		out.Set(reflect.MakeMap(t))
		out.SetMapIndex(another(t.Key(), reflect.Zero(t.Key())), another(t.Elem(), reflect.Zero(t.Elem())))
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				out.Field(i).Set(another(t.Field(i).Type, reflect.Zero(t.Field(i).Type)))
			}
		}
	case reflect.Pointer:
		out.Set(reflect.New(t.Elem()))
	case reflect.Interface:
		out.Set(reflect.ValueOf("changed"))
	default:
		panic("a config has no " + t.String())
	}
	return out
}

// A source with any other key is built anew by a reload.
func TestEachKeyOfASourceCountsAfterAReload(t *testing.T) {
	t.Parallel()
	c := config.Default()
	digest := func(s config.Source) string {
		return sourceDigest(s, c) + fmt.Sprint(c.DefinitionsOf(s), c.Quarantined(s)) // as in buildManager
	}
	var s config.Source
	keys, before := 0, ""
	eachLeaf(reflect.ValueOf(&s).Elem(), "", func(key string, changed bool) {
		if !changed {
			before = digest(s)
			return
		}
		keys++
		if digest(s) == before {
			t.Errorf("a source that differs in %s alone is not built anew", key)
		}
	})
	if keys < 80 {
		t.Errorf("only %d keys were tried", keys)
	}
}

func field(v reflect.Value, name string) reflect.Value {
	for i := range v.NumField() {
		if key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ","); key == name {
			return v.Field(i)
		}
	}
	return reflect.Value{}
}

// Each key of these sections is applied by a reload, so that the part that uses it behaves
// otherwise, or is named as one that needs a restart.
func TestAReloadAppliesEachKeyOrNamesIt(t *testing.T) {
	t.Parallel()
	a, err := Open(t.Context(), Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	// What these parts are now. A part that reads the config at each use has that one.
	in := func() map[string]any {
		now := a.Config()
		asked, err := a.approvals.Request(t.Context(), toolroom.Approval{Tool: "a:b", Digest: rand.Text()})
		if err != nil {
			t.Fatal(err)
		}
		return map[string]any{
			"limits":             a.runner.Limits(),
			"limits.job_ttl":     now.Limits.JobTTL,
			"approvals.ttl":      asked.Expires.Sub(asked.Created).Round(time.Millisecond),
			"approvals":          fmt.Sprint(a.approvalTerms("a:b")),
			"approvals.keep":     now.Approvals.Keep,
			"approvals.mcp_wait": now.Approvals.MCPWait,
			"approvals.rules":    now.Approvals.Rules,
			"approvals.writes":   now.Approvals.Writes,
			"approvals.webhooks": now.Approvals.Webhooks,
			"approvals.session":  now.Approvals.Session,
		}
	}
	before := in()
	for _, section := range []string{"limits", "approvals", "server"} {
		c := config.Default()
		at := field(reflect.ValueOf(c).Elem(), section)
		eachLeaf(at, section, func(key string, changed bool) {
			if !changed {
				return
			}
			if named := a.NeedsRestart(c); len(named) > 0 {
				if !slices.ContainsFunc(named, func(n string) bool { return n == key || strings.HasPrefix(key, n+".") }) {
					t.Errorf("a change of %s is named as %v", key, named)
				}
				return
			}
			// Only the sections matter, and not whether the values are sensible.
			if err := a.Reload(c); err != nil {
				t.Errorf("%s: %v", key, err)
				return
			}
			now := in()
			if maps.EqualFunc(before, now, func(x, y any) bool { return reflect.DeepEqual(x, y) }) {
				t.Errorf("a change of %s is neither applied nor named", key)
			}
			if err := a.Reload(config.Default()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A part that is opened with the room's first config, a.config, has that one until a restart,
// unless apply gives it the new one. Such a key must be named as one that needs a restart.
func TestWhatIsReadAtTheStartOnlyNeedsARestart(t *testing.T) {
	t.Parallel()
	applied := map[string]bool{"approvals.ttl": true, "approvals.session": true, "limits": true, "secrets": true, "code.egress": true}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			names, ok := readOfFirstConfig(n)
			if ok {
				read[strings.Join(names, ".")] = true
			}
			return !ok
		})
	}
	if len(read) < 8 {
		t.Errorf("only %v are read of the first config", slices.Sorted(maps.Keys(read)))
	}
	for names := range read {
		c := config.Default()
		at, key := reflect.ValueOf(c).Elem(), ""
		for name := range strings.SplitSeq(names, ".") {
			f, ok := at.Type().FieldByName(name)
			if !ok || strings.Count(key, ".") > 0 { // a method of the section, or a part of a key
				break
			}
			yaml, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			at, key = at.FieldByIndex(f.Index), strings.TrimPrefix(key+"."+yaml, ".")
		}
		eachLeaf(at, key, func(leaf string, changed bool) {
			section, rest, _ := strings.Cut(leaf, ".")
			rest, _, _ = strings.Cut(rest, ".")
			if changed && !applied[section] && !applied[section+"."+rest] && len(c.NeedsRestart(config.Default())) == 0 {
				t.Errorf("%s is read at the start only, and is not named as a key that needs a restart", leaf)
			}
		})
	}
}

// readOfFirstConfig returns the names after a.config in an expression such as
// a.config.Releases.Proposals.
func readOfFirstConfig(n ast.Node) (names []string, ok bool) {
	for {
		s, isSelector := n.(*ast.SelectorExpr)
		if !isSelector {
			return nil, false
		}
		if x, isName := s.X.(*ast.Ident); isName {
			return names, x.Name == "a" && s.Sel.Name == "config" && len(names) > 0
		}
		names = append([]string{s.Sel.Name}, names...)
		n = s.X
	}
}
