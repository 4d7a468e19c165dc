package memory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/memory"
	"github.com/toolroom/toolroom/internal/embed"
	"github.com/toolroom/toolroom/source"
)

type kit struct {
	t    *testing.T
	dir  string
	pack source.Source
}

func newKit(t *testing.T) *kit {
	t.Helper()
	dir := t.TempDir()
	k := &kit{t, dir, memory.Pack(dir, nil).Source()}
	t.Cleanup(func() { _ = k.pack.Close() })
	return k
}

func (k *kit) call(who, tool string, args map[string]any, into any) error {
	k.t.Helper()
	out, err := k.pack.Call(k.t.Context(), &source.Request{
		Tool: toolroom.MustParseID("memory:" + tool), Arguments: builtin.Arguments(args), Identity: toolroom.Identity{Subject: who}, Emit: func(toolroom.Event) {},
	})
	if err == nil && into != nil {
		if bad := json.Unmarshal(out.Value, into); bad != nil {
			k.t.Fatal(bad)
		}
	}
	return err
}

func TestNotesAreKeptFoundAndForgotten(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(k.call("a", "write", map[string]any{"namespace": "project/plan", "content": "# Dates\n\nThe deadline of the budget is in May.\n\n# People\n\nAda leads. See [[user/ada]].\n"}, nil))
	must(k.call("a", "append", map[string]any{"namespace": "user/ada", "content": "- likes tea"}, nil))
	must(k.call("a", "append", map[string]any{"namespace": "user/ada", "content": "- lives in Bern"}, nil))
	var n memory.Note
	must(k.call("a", "read", map[string]any{"namespace": "user/ada"}, &n))
	if n.Content != "- likes tea\n- lives in Bern\n" {
		t.Errorf("%q", n.Content)
	}
	must(k.call("a", "read", map[string]any{"namespace": "project/plan"}, &n))
	if len(n.Links) != 1 || n.Links[0] != "user/ada" {
		t.Errorf("%+v", n)
	}
	var found memory.Results
	must(k.call("a", "search", map[string]any{"query": "deadlines for budgets"}, &found))
	if len(found.Results) == 0 || found.Results[0].Namespace != "project/plan" || found.Results[0].Line != 3 || found.Results[0].Context != "Dates" || found.Results[0].Score <= 0 || found.Results[0].Score >= 1 {
		t.Errorf("%+v", found)
	}
	must(k.call("a", "search", map[string]any{"query": "tea", "namespace": "project"}, &found))
	if len(found.Results) != 0 || found.Note != "" {
		t.Errorf("%+v", found)
	}
	must(k.call("a", "search", map[string]any{"query": "tea", "namespace": "projects"}, &found))
	if len(found.Results) != 0 || !strings.Contains(found.Note, "nothing is remembered in projects") {
		t.Errorf("a namespace that does not exist: %+v", found)
	}
	must(k.call("a", "edit", map[string]any{"namespace": "project/plan", "search": "in May", "replace": "in June"}, nil))
	var gone memory.Forgotten
	must(k.call("a", "forget", map[string]any{"namespace": "project/plan", "text": "deadline"}, &gone))
	if gone.Paragraphs != 1 {
		t.Errorf("%+v", gone)
	}
	must(k.call("a", "forget", map[string]any{"namespace": "user/ada"}, nil))
	var l memory.Listed
	must(k.call("a", "list", nil, &l))
	if len(l.Namespaces) != 1 || l.Namespaces[0].Namespace != "project/plan" {
		t.Errorf("%+v", l)
	}
}

func TestIdentitiesAndPathsAreApart(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for _, who := range []string{"a", "b", "a/../b", ""} {
		if err := k.call(who, "write", map[string]any{"namespace": "n", "content": "of " + who}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, who := range []string{"a", "b", "a/../b", ""} {
		var n memory.Note
		if err := k.call(who, "read", map[string]any{"namespace": "n"}, &n); err != nil || n.Content != "of "+who {
			t.Errorf("%q reads %q, %v", who, n.Content, err)
		}
	}
	for _, name := range []string{"../n", "/etc/passwd", "a//b", "a/../b", ".", "a/.hidden", "", strings.Repeat("x", 100), "a\x00", `a\b`} {
		for _, tool := range []string{"read", "write", "append", "forget"} {
			if err := k.call("a", tool, map[string]any{"namespace": name, "content": "x"}, nil); err == nil {
				t.Errorf("%s of %q succeeded", tool, name)
			}
		}
	}
}

func TestAPersonMayEditTheFiles(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	if err := k.call("a", "write", map[string]any{"namespace": "n", "content": "apples"}, nil); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(k.dir, "a-*", "n.md"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	var found memory.Results
	for _, fruit := range []string{"apples", "pears and plums"} {
		if err := os.WriteFile(files[0], []byte(fruit), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := k.call("a", "search", map[string]any{"query": fruit}, &found); err != nil || len(found.Results) != 1 || found.Results[0].Content != fruit {
			t.Errorf("%+v, %v", found, err)
		}
	}
}

func TestNotesAtTheSameTimeAreAllKept(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	other := memory.Pack(k.dir, nil).Source() // as another process would
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			pack := k.pack
			if i%2 == 0 {
				pack = other
			}
			_, err := pack.Call(t.Context(), &source.Request{
				Tool: toolroom.MustParseID("memory:append"), Arguments: builtin.Arguments(map[string]any{"namespace": "n", "content": fmt.Sprintf("note %d.", i)}), Emit: func(toolroom.Event) {},
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var n memory.Note
	if err := k.call("", "read", map[string]any{"namespace": "n"}, &n); err != nil || strings.Count(n.Content, "note ") != 20 {
		t.Errorf("%q, %v", n.Content, err)
	}
}

// byName is an embedder whose vectors of a text depend on its name.
type byName struct {
	name   string
	vector map[string][]float32
}

func (e byName) Name() string { return e.name }

func (e byName) Embed(_ context.Context, texts []string) ([][]float32, error) {
	var list [][]float32
	for _, text := range texts {
		if v, ok := e.vector[text]; ok {
			list = append(list, v)
		} else {
			list = append(list, []float32{0, 1})
		}
	}
	return list, nil
}

// Vectors of two embedders are never compared, also if they have as many dimensions.
func TestNotesAreEmbeddedAgainByANewEmbedder(t *testing.T) {
	t.Parallel()
	service := func(e byName) *embed.Service {
		s := embed.New(func(context.Context) (embed.Embedder, error) { return e, nil }, embed.Options{})
		t.Cleanup(s.Close)
		return s
	}
	var inUse atomic.Pointer[embed.Service]
	inUse.Store(service(byName{"old", map[string][]float32{"pears": {1, 0}, "fruit": {1, 0}}}))
	k := &kit{t: t, dir: t.TempDir()}
	k.pack = memory.Pack(k.dir, inUse.Load).Source()
	t.Cleanup(func() { _ = k.pack.Close() })
	for namespace, text := range map[string]string{"a": "pears", "b": "stones"} {
		if err := k.call("a", "write", map[string]any{"namespace": namespace, "content": text}, nil); err != nil {
			t.Fatal(err)
		}
	}
	best := func() string {
		t.Helper()
		for range 10_000 {
			var found memory.Results
			if err := k.call("a", "search", map[string]any{"query": "fruit"}, &found); err != nil {
				t.Fatal(err)
			}
			if found.Note == "" && len(found.Results) > 0 {
				return found.Results[0].Content
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatal("the notes were not embedded")
		return ""
	}
	if got := best(); got != "pears" {
		t.Errorf("the old embedder finds %s", got)
	}
	inUse.Store(service(byName{"new", map[string][]float32{"stones": {-1, 0}, "fruit": {-1, 0}}}))
	if got := best(); got != "stones" {
		t.Errorf("the new embedder finds %s", got)
	}
}

func TestVectorsGoWithTheirTexts(t *testing.T) {
	t.Parallel()
	service := embed.New(func(context.Context) (embed.Embedder, error) { return byName{name: "e"}, nil }, embed.Options{})
	t.Cleanup(service.Close)
	dir := t.TempDir()
	open := func() *kit {
		k := &kit{t, dir, memory.Pack(dir, func() *embed.Service { return service }).Source()}
		t.Cleanup(func() { _ = k.pack.Close() })
		return k
	}
	k := open()
	texts := []string{"pears", "plums", "stones", "sand"}
	for namespace, text := range map[string]string{"a": "pears\n\nplums", "b": "stones\n\nsand"} {
		if err := k.call("a", "write", map[string]any{"namespace": namespace, "content": text}, nil); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, "*", ".vectors"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%q, %v", files, err)
		}
		data, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		var there []string
		for _, text := range texts {
			if digest := embed.DigestOf(text); bytes.Contains(data, digest[:]) {
				there = append(there, text)
			}
		}
		return strings.Join(there, " ")
	}
	search := func(k *kit) memory.Results {
		t.Helper()
		for range 10_000 {
			var found memory.Results
			if err := k.call("a", "search", map[string]any{"query": "sand"}, &found); err != nil {
				t.Fatal(err)
			}
			if found.Note == "" {
				return found
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatal("the notes were not embedded")
		return memory.Results{}
	}
	search(k)
	if got := kept(); got != "pears plums stones sand" {
		t.Fatalf("vectors of %s", got)
	}
	for _, step := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"forget", map[string]any{"namespace": "a", "text": "pears"}, "plums stones sand"},
		{"edit", map[string]any{"namespace": "b", "search": "stones", "replace": "rocks"}, "plums sand"},
		{"forget", map[string]any{"namespace": "a"}, "sand"},
	} {
		if err := open().call("a", step.tool, step.args, nil); err != nil { // in another process
			t.Fatal(err)
		}
		if got := kept(); got != step.want {
			t.Errorf("after %s %v: vectors of %s", step.tool, step.args, got)
		}
	}
	for _, r := range search(k).Results {
		if r.Content != "sand" && r.Content != "rocks" {
			t.Errorf("found %q", r.Content)
		}
	}
}

func TestATextIsAddedOnce(t *testing.T) {
	t.Parallel()
	notes := memory.Open(t.TempDir())
	for _, text := range []string{"# s3://b/a\n\none\n", "# s3://b/a\n\none\n", "# s3://b/c\n\ntwo\n", "# s3://b/a\n\none\n", "# s3://b/a\n\none and more\n", "more\n"} {
		if err := notes.Save(t.Context(), toolroom.Identity{}, "n", text, true); err != nil {
			t.Fatal(err)
		}
	}
	want := "# s3://b/a\n\none\n\n# s3://b/c\n\ntwo\n\n# s3://b/a\n\none and more\n\nmore\n"
	if got, err := notes.Read(toolroom.Identity{}, "n"); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
}
