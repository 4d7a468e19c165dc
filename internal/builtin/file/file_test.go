package file_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin/file"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/source"
)

// kit is a pack on a folder of its own.
type kit struct {
	t    *testing.T
	dir  string
	pack source.Source
}

func newKit(t *testing.T) *kit {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	folders, err := folder.Open([]string{dir}, folder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{t, dir, file.Pack(file.Options{Folders: folders, Undo: t.TempDir()}, nil).Source()}
	t.Cleanup(func() { _ = k.pack.Close() })
	return k
}

func (k *kit) put(name, text string) {
	k.t.Helper()
	path := filepath.Join(k.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// text returns a file, or "-" if there is none.
func (k *kit) text(name string) string {
	data, err := os.ReadFile(filepath.Join(k.dir, name))
	if err != nil {
		return "-"
	}
	return string(data)
}

func request(tool, session string, args map[string]any) *source.Request {
	data, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return &source.Request{Tool: toolroom.MustParseID("file:" + tool), Arguments: data, Session: session, Emit: func(toolroom.Event) {}}
}

func (k *kit) call(tool string, args map[string]any) (map[string]any, string, error) {
	k.t.Helper()
	out, err := k.pack.Call(k.t.Context(), request(tool, "", args))
	if err != nil {
		return nil, "", err
	}
	var value map[string]any
	if err := json.Unmarshal(out.Value, &value); err != nil {
		k.t.Fatal(err)
	}
	text := ""
	for _, c := range out.Content {
		text += c.Text
	}
	return value, text, nil
}

func TestEditsChangeTheFoundTextAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before, search, replace string
		more                    map[string]any
		after, match            string
		code                    toolroom.Code
		says                    string
	}{
		"exact":                              {before: "a b a\n", search: "b", replace: "c", after: "a c a\n", match: "exact"},
		"across lines":                       {before: "1\n2\n3\n", search: "1\n2", replace: "x", after: "x\n3\n", match: "exact"},
		"ambiguous":                          {before: "a\nb\na\n", search: "a", replace: "c", code: toolroom.CodeConflict, says: "2 times: lines 1, 3"},
		"all":                                {before: "a\nb\na\n", search: "a", replace: "c", more: map[string]any{"replace_all": true}, after: "c\nb\nc\n", match: "exact"},
		"the right count":                    {before: "a a", search: "a", replace: "c", more: map[string]any{"count": 2}, after: "c c", match: "exact"},
		"a wrong count":                      {before: "a a", search: "a", replace: "c", more: map[string]any{"count": 3}, code: toolroom.CodeConflict, says: "2 times, not 3"},
		"line ends differ":                   {before: "a\r\nb\r\nc\r\n", search: "a\nb\n", replace: "x\ny\n", after: "x\r\ny\r\nc\r\n", match: "whitespace"},
		"spaces at the end":                  {before: "a  \nb\n", search: "a\nb", replace: "x", after: "x\n", match: "whitespace"},
		"indentation differs":                {before: "if x {\n\t\tfoo()\n\t\tbar()\n}\n", search: "  foo()\n  bar()", replace: "  foo()\n  baz()", after: "if x {\n\t\tfoo()\n\t\tbaz()\n}\n", match: "indentation"},
		"the other lines keep their tabs":    {before: "\ta \n\tb\n    c\n", search: "b", replace: "d", after: "\ta \n\td\n    c\n", match: "exact"},
		"a miss shows the nearest text":      {before: "alpha\nfunc handler(w, r) {\nomega\n", search: "func handle(w, r) {", replace: "", code: toolroom.CodeNotFound, says: "line 2"},
		"white space alone":                  {before: "abc", search: " \n", replace: "x", code: toolroom.CodeInvalidArguments, says: "white space"},
		"white space that stands there":      {before: "a b", search: " ", replace: "-", after: "a-b", match: "exact"},
		"line numbers of a listing":          {before: "abc\n", search: "  1\tabc", replace: "x", code: toolroom.CodeNotFound, says: "does not stand"},
		"the same text":                      {before: "abc", search: "a", replace: "a", code: toolroom.CodeInvalidArguments, says: "same"},
		"no line end at the end of the file": {before: "a\n  b", search: "a\nb", replace: "c", after: "c", match: "indentation"},
		"bytes that are no text":             {before: "\xff\xfe a \xff", search: " a ", replace: " b ", after: "\xff\xfe b \xff", match: "exact"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			k.put("f", tt.before)
			args := map[string]any{"path": "f", "search": tt.search, "replace": tt.replace}
			for key, value := range tt.more {
				args[key] = value
			}
			value, _, err := k.call("edit", args)
			if tt.code != "" {
				if toolroom.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("got %v, want %s with %q", err, tt.code, tt.says)
				}
				tt.after = tt.before
			} else if err != nil || value["match"] != tt.match {
				t.Errorf("%v, %v", value, err)
			}
			if got := k.text("f"); got != tt.after {
				t.Errorf("the file is %q, want %q", got, tt.after)
			}
		})
	}
}

func TestPatchesChangeAllFilesOrNone(t *testing.T) {
	t.Parallel()
	five := "one\ntwo\nthree\nfour\nfive\n"
	for name, tt := range map[string]struct {
		patch string
		want  map[string]string
		code  toolroom.Code
		note  string
	}{
		"a unified diff": {patch: "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n two\n-three\n+3\n four\n", want: map[string]string{"f": "one\ntwo\n3\nfour\nfive\n"}},
		"two hunks":      {patch: "--- a/f\n+++ b/f\n@@ -1,1 +1,2 @@\n one\n+half\n@@ -5 +6 @@\n-five\n+5\n", want: map[string]string{"f": "one\nhalf\ntwo\nthree\nfour\n5\n"}},
		"wrong line numbers and counts": {
			patch: "--- a/f\n+++ b/f\n@@ -90,1 +90,1 @@\n two\n-three\n+3\n four\n", want: map[string]string{"f": "one\ntwo\n3\nfour\nfive\n"}, note: "from where it says",
		},
		"a new file":           {patch: "--- /dev/null\n+++ b/new/file\n@@ -0,0 +1,2 @@\n+a\n+b\n", want: map[string]string{"new/file": "a\nb\n"}},
		"a deleted file":       {patch: "--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-gee\n", want: map[string]string{"g": "-"}},
		"a rename":             {patch: "diff --git a/g b/h\nrename from g\nrename to h\n", want: map[string]string{"g": "-", "h": "gee\n"}},
		"a rename with a hunk": {patch: "diff --git a/g b/h\nrename from g\nrename to h\n--- a/g\n+++ b/h\n@@ -1 +1 @@\n-gee\n+hee\n", want: map[string]string{"g": "-", "h": "hee\n"}},
		"the second file does not fit": {
			patch: "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+1\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-zzz\n+1\n", want: map[string]string{"f": five, "g": "gee\n"}, code: toolroom.CodeConflict,
		},
		"sections":           {patch: "*** Begin Patch\n*** Update File: f\n@@ two\n-three\n+3\n*** Add File: n\n+new\n*** Delete File: g\n*** End Patch\n", want: map[string]string{"f": "one\ntwo\n3\nfour\nfive\n", "n": "new\n", "g": "-"}},
		"a moved section":    {patch: "*** Begin Patch\n*** Update File: g\n*** Move to: m\n@@\n-gee\n+mee\n*** End Patch", want: map[string]string{"g": "-", "m": "mee\n"}},
		"a missing file":     {patch: "--- a/nope\n+++ b/nope\n@@ -1 +1 @@\n-a\n+b\n", want: map[string]string{"f": five}, code: toolroom.CodeNotFound},
		"a file that exists": {patch: "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n", want: map[string]string{"f": five}, code: toolroom.CodeConflict},
		"outside":            {patch: "--- /dev/null\n+++ b/../../x\n@@ -0,0 +1 @@\n+a\n", want: map[string]string{"f": five}, code: toolroom.CodeDenied},
		"no patch":           {patch: "hello", want: map[string]string{"f": five}, code: toolroom.CodeInvalidArguments},
		"CRLF is kept":       {patch: "--- a/crlf\n+++ b/crlf\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", want: map[string]string{"crlf": "a\r\nc\r\n"}},
		"no end of line":     {patch: "--- a/f\n+++ b/f\n@@ -5 +5 @@\n-five\n+5\n\\ No newline at end of file\n", want: map[string]string{"f": "one\ntwo\nthree\nfour\n5"}},
		"trailing spaces":    {patch: "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n two  \n-three\n+3\n four\n", want: map[string]string{"f": "one\ntwo\n3\nfour\nfive\n"}, note: "white space"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			k.put("f", five)
			k.put("g", "gee\n")
			k.put("crlf", "a\r\nb\r\n")
			value, _, err := k.call("patch", map[string]any{"patch": tt.patch})
			if toolroom.CodeOf(err) != tt.code {
				t.Fatalf("got %v, want %q", err, tt.code)
			}
			for name, want := range tt.want {
				if got := k.text(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if tt.note != "" && !strings.Contains(fmt.Sprint(value["notes"]), tt.note) {
				t.Errorf("the notes are %v", value["notes"])
			}
		})
	}
}

func TestUndoRestoresTheLastChangesOfASession(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.put("f", "first")
	for _, text := range []string{"second", "third"} {
		if _, err := k.pack.Call(t.Context(), request("write", "s", map[string]any{"path": "f", "content": text})); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.pack.Call(t.Context(), request("write", "s", map[string]any{"path": "new", "content": "x"})); err != nil {
		t.Fatal(err)
	}
	if _, err := k.pack.Call(t.Context(), request("undo", "other", nil)); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("another session can undo it: %v", err)
	}
	narrow := request("undo", "s", nil)
	narrow.Identity.Agent = "fast"
	if _, err := k.pack.Call(t.Context(), narrow); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("an agent of the same identity can undo it: %v", err)
	}
	if _, err := k.pack.Call(t.Context(), request("undo", "s", map[string]any{"count": 2})); err != nil {
		t.Fatal(err)
	}
	if k.text("f") != "second" || k.text("new") != "-" {
		t.Errorf("f is %q, new is %q", k.text("f"), k.text("new"))
	}
	k.put("f", "by a person")
	if _, err := k.pack.Call(t.Context(), request("undo", "s", nil)); toolroom.CodeOf(err) != toolroom.CodeConflict || k.text("f") != "by a person" {
		t.Errorf("a change by others is overwritten: %v, %q", err, k.text("f"))
	}
}

func TestReadsByLinesEncodingsAndTypes(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	var long strings.Builder
	for i := 1; i <= 3000; i++ {
		fmt.Fprintf(&long, "line %d\n", i)
	}
	k.put("long", long.String())
	k.put("utf16", "\xff\xfeh\x00i\x00")
	k.put("latin", "caf\xe9")
	k.put("binary", "\x00\x01\x02")
	k.put("empty", "")
	k.put("wide", strings.Repeat("x", 300_000)+"\nend\n")
	k.put("image.png", "\x89PNG\r\n\x1a\n\x00\x00")
	for name, tt := range map[string]struct {
		args  map[string]any
		want  string
		value map[string]any
		code  toolroom.Code
	}{
		"a range":           {args: map[string]any{"path": "long", "offset": 2999, "limit": 1}, want: "line 2999\n[lines 2999 to 2999 of 3000]", value: map[string]any{"next_offset": 3000.0}},
		"the end":           {args: map[string]any{"path": "long", "offset": 3000}, want: "line 3000\n[lines 3000 to 3000 of 3000]"},
		"beyond the end":    {args: map[string]any{"path": "long", "offset": 3001}, code: toolroom.CodeInvalidArguments},
		"UTF-16":            {args: map[string]any{"path": "utf16"}, want: "hi"},
		"a named encoding":  {args: map[string]any{"path": "latin", "encoding": "windows-1252"}, want: "café"},
		"no such encoding":  {args: map[string]any{"path": "latin", "encoding": "klingon"}, code: toolroom.CodeInvalidArguments},
		"binary":            {args: map[string]any{"path": "binary"}, code: toolroom.CodeUnsupported},
		"binary as base64":  {args: map[string]any{"path": "binary", "encoding": "base64"}, value: map[string]any{"content": "AAEC"}},
		"an empty file":     {args: map[string]any{"path": "empty"}, want: ""},
		"an image":          {args: map[string]any{"path": "image.png"}, value: map[string]any{"mime_type": "image/png"}, want: "image.png: image/png, 10 bytes"},
		"a missing file":    {args: map[string]any{"path": "nope"}, code: toolroom.CodeNotFound},
		"a folder":          {args: map[string]any{"path": "."}, code: toolroom.CodeInvalidArguments},
		"after a wide line": {args: map[string]any{"path": "wide", "offset": 2}, want: "end\n[lines 2 to 2 of 2]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value, text, err := k.call("read", tt.args)
			if toolroom.CodeOf(err) != tt.code || err == nil && tt.want != "" && text != tt.want {
				t.Errorf("got %q, %v", text, err)
			}
			for key, want := range tt.value {
				if value[key] != want {
					t.Errorf("%s is %v, want %v", key, value[key], want)
				}
			}
		})
	}
	value, text, err := k.call("read", map[string]any{"path": "wide"})
	if err != nil || len(text) > 300_000 || value["total_lines"] != 2.0 {
		t.Errorf("%d bytes, %v, %v", len(text), value["total_lines"], err)
	}
}

// A listed path is one that the other tools take.
func TestListedPathsCanBeRead(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.put("shop/cart.go", "package shop\n")
	for _, dir := range []string{"shop", "./shop/", filepath.Join(k.dir, "shop"), "."} {
		value, _, err := k.call("list", map[string]any{"path": dir, "pattern": "**/*.go"})
		if err != nil {
			t.Fatal(err)
		}
		path := value["entries"].([]any)[0].(map[string]any)["path"].(string)
		if _, text, err := k.call("read", map[string]any{"path": path}); err != nil || text != "package shop\n" {
			t.Errorf("the list of %s has %s: %q, %v", dir, path, text, err)
		}
	}
	_, _, err := k.call("read", map[string]any{"path": "cart.go"})
	if hint := toolroom.AsError(err).Hint; !strings.Contains(hint, "relative paths begin in "+k.dir) {
		t.Errorf("hint %q", hint)
	}
}

func TestAFileWithALineEndInItsNameIsOneLine(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.put("a\nb.txt", "needle\n")
	for tool, args := range map[string]map[string]any{"list": {}, "search": {"query": "needle", "files_only": true}} {
		if _, text, err := k.call(tool, args); err != nil || !strings.Contains(text, `a\nb.txt`) || strings.Contains(text, "\nb.txt") {
			t.Errorf("%s: %q, %v", tool, text, err)
		}
	}
}

func TestSearchFindsLinesLikeGrep(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.put("a.go", "package a\n\nfunc Foo() {}\nfunc bar() {}\n")
	k.put("sub/b.go", "func FooBar() {}\r\nnothing\n")
	k.put("bin", "func Foo\x00")
	k.put(".gitignore", "skip\n")
	k.put("skip/c.go", "func Foo() {}\n")
	for name, tt := range map[string]struct {
		args map[string]any
		want string
		code toolroom.Code
	}{
		"a regular expression": {args: map[string]any{"query": `func Foo\w*`}, want: "a.go:3:func Foo() {}\nsub/b.go:1:func FooBar() {}\n"},
		"plain text":           {args: map[string]any{"query": "bar() {", "literal": true}, want: "a.go:4:func bar() {}\n"},
		"any case":             {args: map[string]any{"query": "foobar", "ignore_case": true}, want: "sub/b.go:1:func FooBar() {}\n"},
		"the end of a line":    {args: map[string]any{"query": "^package a$"}, want: "a.go:1:package a\n"},
		"by glob":              {args: map[string]any{"query": "func", "glob": "sub/*.go"}, want: "sub/b.go:1:func FooBar() {}\n"},
		"one file":             {args: map[string]any{"query": "nothing", "path": "sub/b.go"}, want: "sub/b.go:2:nothing\n"},
		"a folder, with paths that other tools take": {args: map[string]any{"query": "nothing", "path": "sub"}, want: "sub/b.go:2:nothing\n"},
		"files of a folder":                          {args: map[string]any{"query": "nothing", "path": "./sub/", "files_only": true}, want: "sub/b.go\n"},
		"files only":                                 {args: map[string]any{"query": "func", "files_only": true}, want: "a.go\nsub/b.go\n"},
		"lines around":                               {args: map[string]any{"query": "Foo\\(", "context": 1}, want: "a.go-2-\na.go:3:func Foo() {}\na.go-4-func bar() {}\n"},
		"ignored files as well":                      {args: map[string]any{"query": "Foo\\(", "all": true}, want: "a.go:3:func Foo() {}\nskip/c.go:1:func Foo() {}\n"},
		"a limit":                                    {args: map[string]any{"query": "func", "limit": 1}, want: "a.go:3:func Foo() {}\n[there are more matches; narrow the query, or raise limit]\n"},
		"no match":                                   {args: map[string]any{"query": "zzz"}, want: "Nothing matches in 4 files."},
		"no expression":                              {args: map[string]any{"query": "("}, code: toolroom.CodeInvalidArguments},
		"an expression of one rune":                  {args: map[string]any{"query": "(?i)PACKAGE"}, want: "a.go:1:package a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, text, err := k.call("search", tt.args)
			if toolroom.CodeOf(err) != tt.code || text != tt.want {
				t.Errorf("got %q, %v\nwant %q", text, err, tt.want)
			}
		})
	}
}

func TestSearchLeavesOutFilesThatRulesForbid(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.put("data/plain.txt", "secret\n")
	k.put("data/private.txt", "secret\n")
	k.put("data/.env", "secret\n")
	k.put("data/keys/a.pem", "secret\n")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(k.dir, link); err != nil {
		t.Fatal(err)
	}
	rule := func(mode, target string) toolroom.Effect {
		return toolroom.Effect{Kind: toolroom.EffectFile, Mode: mode, Target: target}
	}
	for _, path := range []string{".", "data"} {
		req := request("search", "", map[string]any{"query": "secret", "path": path, "all": true})
		req.Forbidden = []toolroom.Effect{
			rule("", link+"/data/private.txt"), rule("read", "**/.env"), rule("", k.dir+"/data/keys/**"),
			rule("write", k.dir+"/**"),
			{Kind: toolroom.EffectHost, Target: "*"},
		}
		for _, r := range req.Forbidden {
			if enforced := k.pack.(source.Predictor).Enforces(req, r, nil); enforced != (r.Kind == toolroom.EffectFile) {
				t.Errorf("%v: enforced %v", r, enforced)
			}
		}
		out, err := k.pack.Call(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if text := out.Content[0].Text; text != "data/plain.txt:1:secret\n\n[rules of the policy forbid 3 of the files, which were not searched]\n" {
			t.Errorf("%s: %q", path, text)
		}
	}
	req := request("search", "", map[string]any{"query": "secret", "path": "data/private.txt"})
	req.Forbidden = []toolroom.Effect{rule("", link+"/data/private.txt")}
	if out, err := k.pack.Call(t.Context(), req); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("one file: %v, %v", out, err)
	}
	req = request("list", "", map[string]any{"path": ".", "recursive": true, "all": true})
	req.Forbidden = []toolroom.Effect{rule("", link+"/data/private.txt"), rule("read", "**/.env"), rule("", k.dir+"/data/keys/**"), rule("write", k.dir+"/**")}
	if out, err := k.pack.Call(t.Context(), req); err != nil || strings.Contains(out.Content[0].Text, "private") || strings.Contains(out.Content[0].Text, ".env") || strings.Contains(out.Content[0].Text, "keys") || !strings.Contains(out.Content[0].Text, "data/plain.txt") {
		t.Errorf("a list: %+v, %v", out, err)
	}
}

// The policy judges the path of a call before the file is opened. Another program may make a
// link on it lead elsewhere in between.
func TestRulesHoldWherePathsLeadWhenTheyAreOpened(t *testing.T) {
	t.Parallel()
	for tool, args := range map[string]func(path string) map[string]any{
		"read":  func(path string) map[string]any { return map[string]any{"path": path} },
		"write": func(path string) map[string]any { return map[string]any{"path": path, "content": "new"} },
		"edit": func(path string) map[string]any {
			return map[string]any{"path": path, "search": "text", "replace": "new"}
		},
		"patch": func(path string) map[string]any {
			return map[string]any{"patch": "--- a/" + path + "\n+++ /dev/null\n@@ -1 +0,0 @@\n-text\n"}
		},
	} {
		for path, denied := range map[string]bool{"a/x": true, "secret/x": true, "plain/x": false} {
			t.Run(tool+" "+path, func(t *testing.T) {
				t.Parallel()
				k := newKit(t)
				k.put("secret/x", "text\n")
				k.put("plain/x", "text\n")
				if err := os.Symlink("secret", filepath.Join(k.dir, "a")); err != nil {
					t.Fatal(err)
				}
				req := request(tool, "", args(path))
				req.Forbidden = []toolroom.Effect{{Kind: toolroom.EffectFile, Target: filepath.ToSlash(k.dir) + "/secret/**"}}
				if !k.pack.(source.Predictor).Enforces(req, req.Forbidden[0], nil) {
					t.Error("the rule is not passed to the call")
				}
				if out, err := k.pack.Call(t.Context(), req); (toolroom.CodeOf(err) == toolroom.CodeDenied) != denied || err != nil != denied {
					t.Errorf("%v, %v", out, err)
				}
				if text, err := os.ReadFile(filepath.Join(k.dir, "secret/x")); err != nil || string(text) != "text\n" {
					t.Errorf("the file is %q, %v", text, err)
				}
			})
		}
	}
}

// What is undone is judged in the same way.
func TestAnUndoChangesNoFileThatIsForbiddenByThen(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.put("plain/x", "old")
	if _, _, err := k.call("write", map[string]any{"path": "plain/x", "content": "new"}); err != nil {
		t.Fatal(err)
	}
	req := request("undo", "", map[string]any{})
	req.Forbidden = []toolroom.Effect{{Kind: toolroom.EffectFile, Mode: "write", Target: filepath.ToSlash(k.dir) + "/plain/**"}}
	if _, err := k.pack.Call(t.Context(), req); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("%v", err)
	}
}

func TestHintsOfPathsOutsideNeverNameTheWholeMachine(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for path, folder := range map[string]string{"/etc": `"/etc"`, "/etc/passwd": `"/etc"`, "/": `"/"`} {
		_, _, err := k.call("list", map[string]any{"path": path})
		if hint := toolroom.AsError(err).Hint; !strings.HasSuffix(hint, ", "+folder+"]}}") {
			t.Errorf("%s: %s", path, hint)
		}
	}
}

func TestCancelledSearchesEnd(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for i := range 500 {
		k.put(fmt.Sprintf("d%d/f", i), strings.Repeat("text\n", 1000))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := k.pack.Call(ctx, request("search", "", map[string]any{"query": "x$"})); err == nil {
		t.Errorf("got %s", out.Value)
	}
}

func TestPreviewsShowTheDiffWithoutChangingAnything(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.put("f", "one\ntwo\n")
	previewer := k.pack.(source.Predictor)
	for tool, args := range map[string]map[string]any{
		"write": {"path": "f", "content": "one\n2\n"},
		"edit":  {"path": "f", "search": "two", "replace": "2"},
		"patch": {"patch": "--- a/f\n+++ b/f\n@@ -2 +2 @@\n-two\n+2\n"},
	} {
		p, err := previewer.Preview(t.Context(), request(tool, "", args))
		if err != nil || !strings.Contains(p.Diff, "-two\n+2\n") || len(p.Effects) != 1 {
			t.Errorf("%s: %+v, %v", tool, p, err)
		}
	}
	if k.text("f") != "one\ntwo\n" {
		t.Error("a preview has changed the file")
	}
}

func TestEffectsNameTheFilesOfACall(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	predictor := k.pack.(source.Predictor)
	effects, dir := predictor.PredictEffects(request("patch", "", map[string]any{"patch": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"}))
	got := ""
	for _, e := range effects {
		got += e.Mode + " " + e.Target + "; "
	}
	if got != "write f; read f; delete g; read g; " || dir != k.dir {
		t.Errorf("%s in %s", got, dir)
	}
}

// FuzzPatch checks that no patch makes the parser panic, or changes a file outside.
func FuzzPatch(f *testing.F) {
	f.Add("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n")
	f.Add("*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch")
	dir := f.TempDir()
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		f.Fatal(err)
	}
	folders, err := folder.Open([]string{root}, folder.Options{})
	if err != nil {
		f.Fatal(err)
	}
	pack := file.Pack(file.Options{Folders: folders}, nil).Source()
	f.Fuzz(func(t *testing.T, patch string) {
		if err := os.WriteFile(filepath.Join(root, "f"), []byte("a\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args, _ := json.Marshal(map[string]string{"patch": patch})
		_, _ = pack.Call(t.Context(), &source.Request{Tool: toolroom.MustParseID("file:patch"), Arguments: args, Emit: func(toolroom.Event) {}})
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Fatalf("outside: %v, %v", entries, err)
		}
	})
}
