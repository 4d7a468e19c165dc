package run_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/source"
)

const defaultLimit = 51_200

var noteText = regexp.MustCompile(`\n\[Output truncated - (\d+) bytes hidden; [^]]*\]\n`)

// wantCut checks what is shown of a text that was too long, and its count.
func wantCut(t *testing.T, shown, whole string, limit int) (hidden int64) {
	t.Helper()
	at := noteText.FindStringSubmatchIndex(shown)
	if at == nil {
		t.Fatalf("no note in %.200q", shown)
	}
	hidden, err := strconv.ParseInt(shown[at[2]:at[3]], 10, 64)
	head, tail := shown[:at[0]], shown[at[1]:]
	if err != nil || hidden <= 0 || int64(len(head)+len(tail))+hidden != int64(len(whole)) ||
		len(head)+len(tail) > limit || !strings.HasPrefix(whole, head) || !strings.HasSuffix(whole, tail) {
		t.Errorf("head %d, hidden %d, tail %d of %d bytes, %v", len(head), hidden, len(tail), len(whole), err)
	}
	return hidden
}

// keeping is an artifact store for a runner, with limits of results.
func keeping(t *testing.T, limits artifact.Limits, now func() time.Time) (func(*run.Options), *artifact.Store, *sqlite.Store) {
	t.Helper()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	files, err := artifact.Open(t.Context(), t.TempDir(), store, artifact.Options{Results: limits, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *run.Options) { o.Artifacts = files }, files, store
}

// readAll is the whole of an artifact.
func readAll(t *testing.T, files *artifact.Store, handle string) string {
	t.Helper()
	var all strings.Builder
	for offset := int64(0); ; {
		page, err := files.Read(t.Context(), "local", handle, artifact.ReadOptions{Offset: offset, Limit: artifact.MaxPage})
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(page.Text)
		if offset = page.Next; offset == 0 {
			return all.String()
		}
	}
}

func output(out *source.Output) gofunc.Handler {
	return func(context.Context, *source.Request) (*source.Output, error) { return out, nil }
}

func TestATextIsCutByItsOwnLengthWhateverItsJSONTakes(t *testing.T) {
	t.Parallel()
	option, files, _ := keeping(t, artifact.Limits{Entries: 1000, Total: 1 << 30}, nil)
	b := newBench(t, option)
	b.add(tool("echo:it"), func(_ context.Context, req *source.Request) (*source.Output, error) {
		return &source.Output{Value: req.Arguments[len(`{"V":`) : len(req.Arguments)-1]}, nil
	})
	for _, piece := range []string{"x", `"`, `\`, "\n", "\x1b", "ż", "🙂"} {
		for _, length := range []int{1, 8_600, 30_000, 38_399, 38_401, 49_400, defaultLimit - 1, defaultLimit, defaultLimit + 1, defaultLimit + 7, 60_000, 205_000} {
			text := strings.Repeat(piece, length/len(piece)+1)[:length]
			if text = strings.ToValidUTF8(text, ""); len(text) < length {
				text += strings.Repeat(".", length-len(text))
			}
			args, err := json.Marshal(map[string]string{"V": text})
			if err != nil {
				t.Fatal(err)
			}
			r := b.Run(t.Context(), toolroom.Call{Tool: "echo:it", Arguments: args})
			if !r.OK() {
				t.Fatalf("%d bytes of %q: %v", length, piece, r.Error)
			}
			if length <= defaultLimit {
				if r.Hidden != nil || r.Text() != text {
					t.Errorf("%d bytes of %q are cut: %+v", length, piece, r.Hidden)
				}
				continue
			}
			if hidden := wantCut(t, r.Text(), text, defaultLimit); r.Hidden == nil || r.Hidden.Bytes != hidden || readAll(t, files, r.Hidden.Handle) != text {
				t.Errorf("%d bytes of %q: %d hidden, %+v", length, piece, hidden, r.Hidden)
			}
		}
	}
}

func TestTinyLimitsAreKept(t *testing.T) {
	t.Parallel()
	option, _, _ := keeping(t, artifact.Limits{Entries: 1000}, nil)
	b := newBench(t, option)
	b.add(tool("say:it"), value(`"żółw"`))
	b.add(tool("say:object"), value(`{"a":1}`))
	b.add(tool("say:both"), output(&source.Output{Value: json.RawMessage(`{"a":1,"b":"long enough"}`), Content: []toolroom.Content{toolroom.TextContent("other")}}))
	for limit := 1; limit < 20; limit++ {
		for id, text := range map[string]string{"say:it": "żółw", "say:object": `{"a":1}`, "say:both": "other"} {
			r := b.Run(t.Context(), toolroom.Call{Tool: id, MaxOutput: limit})
			if !r.OK() || !json.Valid(r.Value) || !utf8.ValidString(r.Text()) {
				t.Fatalf("%s at %d: %v, value %s", id, limit, r.Error, r.Value)
			}
			if len(text) <= limit && !strings.HasPrefix(r.Text(), text) {
				t.Errorf("%s at %d shows %q", id, limit, r.Text())
			}
		}
	}
}

func TestALongResultOfAProgramIsCutAsItsText(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for i := range 8_000 {
		fmt.Fprintf(&lines, "line %d of \"it\"\n", i)
	}
	stdout, stderr := lines.String(), strings.Repeat("careful\n", 10_000)
	for _, c := range []struct {
		name, stdout, stderr string
		failed               bool
	}{
		{"long output", stdout, "", false},
		{"long output and a warning", stdout, "careful\n", false},
		{"two long texts", stdout, stderr, false},
		{"long warnings", "done\n", stderr, false},
		{"a failure", stdout, stderr, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			option, files, _ := keeping(t, artifact.Limits{}, nil)
			b := newBench(t, option)
			shown := map[string]any{"stdout": c.stdout, "stderr": c.stderr, "exit_code": 0, "ok": !c.failed}
			whole, err := json.Marshal(shown)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.TrimSuffix(c.stdout, "\n")
			if c.failed {
				text = "exit status 1: " + strings.TrimSpace(c.stderr+"\n"+c.stdout)
			}
			b.add(tool("cli:it"), output(&source.Output{Value: whole, Failed: c.failed, Content: []toolroom.Content{toolroom.TextContent(text)}}))
			r := b.Run(t.Context(), toolroom.Call{Tool: "cli:it"})
			if r.OK() == c.failed || r.Hidden == nil {
				t.Fatalf("got %s, %v, hidden %+v", r.Status, r.Error, r.Hidden)
			}
			if len(text) > defaultLimit {
				if hidden := wantCut(t, r.Text(), text, defaultLimit); hidden != r.Hidden.Bytes {
					t.Errorf("%d hidden, told %d", hidden, r.Hidden.Bytes)
				}
				if readAll(t, files, r.Hidden.Handle) != text {
					t.Error("the handle does not hold the text itself")
				}
			} else if r.Text() != text {
				t.Errorf("the short text is %q", r.Text())
			}
			page, err := files.Read(t.Context(), "local", r.Hidden.Handle, artifact.ReadOptions{Grep: `^(line 7777 .*|careful)$`})
			if err != nil || page.Matches == 0 || strings.Contains(page.Text, `\n`) {
				t.Errorf("the search gave %+v, %v", page, err)
			}
			var value struct {
				Stdout, Stderr string
				OK             *bool
			}
			if err := json.Unmarshal(r.Value, &value); err != nil || value.OK == nil || len(r.Value) > 3*defaultLimit {
				t.Fatalf("the value has %d bytes: %.300s, %v", len(r.Value), r.Value, err)
			}
			if len(c.stderr) > defaultLimit {
				wantCut(t, value.Stderr, strings.TrimSpace(c.stderr)+strings.Repeat("\n", boolToInt(!c.failed)), defaultLimit)
			}
		})
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestAValueThatSaysMoreThanItsTextIsCutOnItsOwn(t *testing.T) {
	t.Parallel()
	option, files, _ := keeping(t, artifact.Limits{}, nil)
	b := newBench(t, option)
	list := "[" + strings.Repeat(`{"n":1},`, 10_000) + "0]"
	b.add(tool("many:it"), output(&source.Output{Value: json.RawMessage(list), Content: []toolroom.Content{toolroom.TextContent("10001 of them")}}))
	r := b.Run(t.Context(), toolroom.Call{Tool: "many:it"})
	if !r.OK() || r.Hidden == nil || readAll(t, files, r.Hidden.Handle) != list {
		t.Fatalf("got %v, %+v", r.Error, r.Hidden)
	}
	if rest, ok := strings.CutPrefix(r.Text(), "10001 of them\n"); !ok || wantCut(t, rest, list, defaultLimit) != r.Hidden.Bytes {
		t.Errorf("shown is %.100s", r.Text())
	}
}

func TestSeveralTextsAreCutAsOneAndKeptOnce(t *testing.T) {
	t.Parallel()
	option, files, _ := keeping(t, artifact.Limits{}, nil)
	b := newBench(t, option)
	a, z := strings.Repeat("a", 40_000), strings.Repeat("z", 40_000)
	image := toolroom.Content{Type: toolroom.ContentImage, MIMEType: "image/png", Data: make([]byte, 100_000)}
	b.add(tool("two:texts"), output(&source.Output{Content: []toolroom.Content{toolroom.TextContent(a), image, toolroom.TextContent(z)}}))
	b.add(tool("one:image"), output(&source.Output{Content: []toolroom.Content{image}}))
	r := b.Run(t.Context(), toolroom.Call{Tool: "two:texts"})
	if !r.OK() || r.Hidden == nil || readAll(t, files, r.Hidden.Handle) != a+"\n"+z || len(r.Content) != 2 || len(r.Artifacts) != 1 {
		t.Errorf("got %v, hidden %+v, %d pieces", r.Error, r.Hidden, len(r.Content))
	}
	if r := b.Run(t.Context(), toolroom.Call{Tool: "one:image"}); !r.OK() || r.Hidden != nil || len(r.Content) != 1 || r.Content[0].Type != toolroom.ContentImage {
		t.Errorf("an image became %d pieces, hidden %+v", len(r.Content), r.Hidden)
	}
}

func TestALongEmbeddedTextBecomesAnArtifact(t *testing.T) {
	t.Parallel()
	option, files, _ := keeping(t, artifact.Limits{}, nil)
	b := newBench(t, option)
	text := strings.Repeat("long ", 20_000)
	b.add(tool("read:it"), output(&source.Output{Content: []toolroom.Content{{Type: toolroom.ContentResource, URI: "file:///a", Text: text}}}))
	r := b.Run(t.Context(), toolroom.Call{Tool: "read:it"})
	encoded, err := json.Marshal(r)
	if err != nil || !r.OK() || len(encoded) > defaultLimit || len(r.Artifacts) != 1 || readAll(t, files, r.Artifacts[0].Handle) != text {
		t.Errorf("got %v, %d bytes, %+v, %v", r.Error, len(encoded), r.Artifacts, err)
	}
}

func TestWhatAFailedToolSaysIsCutAndKeptToo(t *testing.T) {
	t.Parallel()
	const hush = "correct-horse-battery"
	long := strings.Repeat("no ", 1<<20) + hush
	typed := tool("fail:schema")
	typed.OutputSchema = json.RawMessage(`{"type":"object"}`)
	for name, c := range map[string]struct {
		tool    toolroom.Tool
		handler gofunc.Handler
		code    toolroom.Code
	}{
		"a failed result": {tool("fail:it"), output(&source.Output{Failed: true, Content: []toolroom.Content{toolroom.TextContent(long)}}), toolroom.CodeExecutionFailed},
		"an error":        {tool("fail:error"), func(context.Context, *source.Request) (*source.Output, error) { return nil, errors.New(long) }, toolroom.CodeExecutionFailed},
		"a typed error with details": {tool("fail:typed"), func(context.Context, *source.Request) (*source.Output, error) {
			return nil, &toolroom.Error{Code: toolroom.CodeUpstreamError, Message: long, Hint: long, Details: map[string]any{"body": long, "status": 500}}
		}, toolroom.CodeUpstreamError},
		"a value of the wrong schema": {typed, output(&source.Output{Content: []toolroom.Content{toolroom.TextContent(long)}}), toolroom.CodeInvalidOutput},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			option, files, _ := keeping(t, artifact.Limits{}, nil)
			b := newBench(t, option, func(o *run.Options) { o.Secrets = knowing(hush) })
			b.add(c.tool, c.handler)
			r := b.Run(t.Context(), toolroom.Call{Tool: c.tool.ID.String()})
			encoded, err := json.Marshal(r)
			if err != nil || toolroom.CodeOf(r.Err()) != c.code || r.Hidden == nil || len(encoded) > 3*defaultLimit {
				t.Fatalf("%d bytes, hidden %+v, %v, %.200v", len(encoded), r.Hidden, err, r.Error)
			}
			kept := readAll(t, files, r.Hidden.Handle)
			wantCut(t, r.Text(), kept, defaultLimit)
			if !strings.Contains(kept, long[:1000]) || strings.Contains(kept+string(encoded), hush[:9]) {
				t.Error("what is kept is not the redacted text")
			}
		})
	}
}

func TestACallThatWorkedIsOKHoweverLittleCanBeKept(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 20_000)
	now := time.Unix(1_700_000_000, 0)
	clock := func() time.Time { return now }
	for name, limits := range map[string]artifact.Limits{
		"two results":           {Entries: 2},
		"bytes of two":          {Total: 2 * int64(len(long))},
		"bytes of less than it": {Total: 1000},
		"each less than it":     {Each: 60_000},
	} {
		t.Run(name, func(t *testing.T) {
			option, files, _ := keeping(t, limits, clock)
			b := newBench(t, option)
			b.add(tool("long:it"), output(&source.Output{Content: []toolroom.Content{toolroom.TextContent(long)}}))
			for range 5 {
				r := b.Run(t.Context(), toolroom.Call{Tool: "long:it"})
				if !r.OK() || r.Hidden == nil || wantCut(t, r.Text(), long, defaultLimit) != r.Hidden.Bytes {
					t.Fatalf("got %v, %+v", r.Error, r.Hidden)
				}
				if handle := r.Hidden.Handle; handle == "" {
					if !strings.Contains(r.Text(), "they were not kept") || len(r.Artifacts) > 0 {
						t.Errorf("no word that nothing was kept: %s", noteText.FindString(r.Text()))
					}
				} else if kept := readAll(t, files, handle); !strings.HasPrefix(long, kept) || kept == "" || len(kept) < len(long) && !strings.Contains(r.Text(), "were kept]") {
					t.Errorf("%d bytes were kept, told %s", len(kept), noteText.FindString(r.Text()))
				}
			}
		})
	}
	b := newBench(t)
	b.add(tool("long:it"), output(&source.Output{Content: []toolroom.Content{toolroom.TextContent(long)}}))
	if r := b.Run(t.Context(), toolroom.Call{Tool: "long:it"}); !r.OK() || r.Hidden == nil || r.Hidden.Handle != "" {
		t.Errorf("without a store: %v, %+v", r.Error, r.Hidden)
	}
}

func TestTheOldestResultGivesWayToANewOne(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	option, files, _ := keeping(t, artifact.Limits{Entries: 2}, func() time.Time { return now })
	b := newBench(t, option)
	b.add(tool("long:it"), output(&source.Output{Content: []toolroom.Content{toolroom.TextContent(strings.Repeat("x", 60_000))}}))
	var handles []string
	for range 3 {
		r := b.Run(t.Context(), toolroom.Call{Tool: "long:it"})
		if !r.OK() || r.Hidden.Handle == "" {
			t.Fatalf("got %v, %+v", r.Error, r.Hidden)
		}
		handles = append(handles, r.Hidden.Handle)
		now = now.Add(2 * time.Minute)
	}
	for i, handle := range handles {
		if _, err := files.Stat(t.Context(), "local", handle); (err == nil) != (i > 0) {
			t.Errorf("result %d: %v", i, err)
		}
	}
	r := b.Run(t.Context(), toolroom.Call{Tool: "long:it"})
	now = now.Add(30 * time.Second)
	again := b.Run(t.Context(), toolroom.Call{Tool: "long:it"})
	third := b.Run(t.Context(), toolroom.Call{Tool: "long:it"})
	if r.Hidden.Handle == "" || again.Hidden.Handle == "" || third.Hidden.Handle != "" || !third.OK() {
		t.Errorf("young results: %+v, %+v, %+v", r.Hidden, again.Hidden, third.Hidden)
	}
}

func TestABlobThatCannotBeKeptIsTold(t *testing.T) {
	t.Parallel()
	option, _, _ := keeping(t, artifact.Limits{}, nil)
	b := newBench(t, option)
	b.add(tool("big:image"), output(&source.Output{Content: []toolroom.Content{{Type: toolroom.ContentImage, MIMEType: "image/png", Data: make([]byte, 9<<20)}}}))
	r := b.Run(t.Context(), toolroom.Call{Tool: "big:image"})
	if !r.OK() || !strings.Contains(r.Text(), "9437184 bytes is not shown") || len(r.Value) > 1000 {
		t.Errorf("got %v, %.200s, %d bytes of value", r.Error, r.Text(), len(r.Value))
	}
}

func TestAValueThatRepeatsTheTextInManyMembersIsCut(t *testing.T) {
	t.Parallel()
	option, _, _ := keeping(t, artifact.Limits{Entries: 1000}, nil)
	b := newBench(t, option)
	for name, length := range map[string]int{"short": defaultLimit / 7, "long": 2 * defaultLimit} {
		text := strings.Repeat("x", length)
		members := map[string]string{}
		for i := range 100 {
			members["m"+strconv.Itoa(i)] = text
		}
		value, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		b.add(tool("say:"+name), output(&source.Output{Value: value, Content: []toolroom.Content{toolroom.TextContent(text)}}))
		r := b.Run(t.Context(), toolroom.Call{Tool: "say:" + name})
		if !r.OK() || len(r.Value) > 3*defaultLimit || r.Hidden == nil {
			t.Errorf("%s: %v, a value of %d bytes, hidden %v", name, r.Error, len(r.Value), r.Hidden)
		}
	}
}

// xs is a text of n bytes.
func xs(n int) string { return strings.Repeat("x", n) }

// cutTo is a text of n bytes as it is shown if it is cut to limit, and kept from byte at on.
func cutTo(n, limit, at int) string {
	head := limit * 3 / 4
	return xs(head) + fmt.Sprintf("\n[Output truncated - %d bytes hidden; read them: artifact art_1 from byte %d]\n", n-limit, at+head) + xs(limit-head)
}

func TestWhatIsAsLongAsItsLimitIsWholeAndOneByteMoreIsNot(t *testing.T) {
	t.Parallel()
	const limit, blob = 3000, 4 << 20
	b := newBench(t, func(o *run.Options) { o.Artifacts, o.Limits.OutputBytes = newKept(), limit })
	notShown := func(n int) string { return fmt.Sprintf("[%d bytes are not shown]", n) }
	link := func(mime string) string { return "toolroom://artifacts/art_1 " + mime }
	shownContent := func(r *toolroom.Result) string {
		if c := r.Content[0]; c.Type == toolroom.ContentResourceLink && len(c.Raw) == 0 {
			return c.URI + " " + c.MIMEType
		}
		return fmt.Sprint(len(r.Content[0].Text) + len(r.Content[0].Data) + len(r.Content[0].Raw))
	}
	failing := func(change func(e *toolroom.Error, n int)) func(int) (*source.Output, error) {
		return func(n int) (*source.Output, error) {
			e := toolroom.Errorf(toolroom.CodeUpstreamError, "it failed")
			e.RPC = &toolroom.RPCError{Code: 1}
			change(e, n)
			return nil, e
		}
	}
	working := func(out func(n int) source.Output) func(int) (*source.Output, error) {
		return func(n int) (*source.Output, error) { o := out(n); return &o, nil }
	}
	for name, c := range map[string]struct {
		call         func(n int) (*source.Output, error)
		limit        int // if it is another one
		got          func(*toolroom.Result) string
		whole, short string
	}{
		"a text": {
			call: working(func(n int) source.Output {
				return source.Output{Content: []toolroom.Content{toolroom.TextContent(xs(n))}}
			}),
			got: func(r *toolroom.Result) string { return r.Text() }, whole: xs(limit), short: cutTo(limit+1, limit, 0),
		},
		"a text beside a value": {
			call: working(func(n int) source.Output {
				return source.Output{Value: json.RawMessage(`{"a":1}`), Content: []toolroom.Content{toolroom.TextContent(xs(n))}}
			}),
			got: func(r *toolroom.Result) string { return r.Text() + string(r.Value) }, whole: xs(limit) + `{"a":1}`, short: cutTo(limit+1, limit, 0) + `{"a":1}`,
		},
		"a value beside a text": {
			call: working(func(n int) source.Output {
				return source.Output{Value: json.RawMessage(`["` + xs(n-4) + `"]`), Content: []toolroom.Content{toolroom.TextContent("one")}}
			}),
			got: func(r *toolroom.Result) string { return fmt.Sprint(len(r.Content), r.Hidden != nil) }, whole: "1 false", short: "2 true",
		},
		"the white space of a value that repeats its text": {
			call: working(func(n int) source.Output {
				return source.Output{Value: json.RawMessage(`[1,` + strings.Repeat(" ", n-5) + `2]`), Content: []toolroom.Content{toolroom.TextContent("[1,2]")}}
			}),
			got: func(r *toolroom.Result) string { return fmt.Sprint(len(r.Value)) }, whole: "3000", short: "5",
		},
		"an embedded text": {
			call: working(func(n int) source.Output {
				return source.Output{Content: []toolroom.Content{{Type: toolroom.ContentResource, MIMEType: "text/css", Text: xs(n)}}}
			}),
			got: shownContent, whole: "3000", short: link("text/css"),
		},
		"the form in which a piece was sent": {
			call: working(func(n int) source.Output {
				return source.Output{Content: []toolroom.Content{{Type: "novel", MIMEType: "a/b", Raw: json.RawMessage(`"` + xs(n-2) + `"`)}}}
			}),
			got: shownContent, whole: "3000", short: link("a/b"),
		},
		"the form of a piece, for a caller who wants few bytes": {
			limit: 1,
			call: working(func(n int) source.Output {
				return source.Output{Value: json.RawMessage(`1`), Content: []toolroom.Content{{Type: "novel", MIMEType: "a/b", Raw: json.RawMessage(`"` + xs(n-2) + `"`)}}}
			}),
			got: shownContent, whole: "3000", short: link("a/b"),
		},
		"an image": {
			call: working(func(n int) source.Output {
				return source.Output{Value: json.RawMessage(`1`), Content: []toolroom.Content{{Type: toolroom.ContentImage, MIMEType: "image/png", Data: make([]byte, n-limit+blob)}}}
			}),
			got: shownContent, whole: fmt.Sprint(blob), short: link("image/png"),
		},
		"the message of an error": {
			call:  failing(func(e *toolroom.Error, n int) { e.Message = xs(n) }),
			got:   func(r *toolroom.Result) string { return r.Error.Message + r.Text() + string(r.Value) },
			whole: xs(limit), short: xs(1997) + "…" + cutTo(limit+1, limit, 0) + strings.ReplaceAll(`"`+cutTo(limit+1, limit, 0)+`"`, "\n", `\n`),
		},
		"the hint of an error": {
			call:  failing(func(e *toolroom.Error, n int) { e.Hint = xs(n) }),
			got:   func(r *toolroom.Result) string { return r.Error.Hint },
			whole: xs(limit), short: xs(1997) + "…",
		},
		"the hint for the command line": {
			call:  failing(func(e *toolroom.Error, n int) { e.CLIHint = xs(n) }),
			got:   func(r *toolroom.Result) string { return r.Error.CLIHint },
			whole: xs(limit), short: xs(1997) + "…",
		},
		"a detail": {
			call:  failing(func(e *toolroom.Error, n int) { e.Details = map[string]any{"body": xs(n - 2)} }),
			got:   func(r *toolroom.Result) string { return fmt.Sprint(r.Error.Details["body"]) },
			whole: xs(limit - 2), short: notShown(limit + 1),
		},
		"the message of a JSON-RPC error": {
			call:  failing(func(e *toolroom.Error, n int) { e.RPC.Message = xs(n - 2) }),
			got:   func(r *toolroom.Result) string { return r.Error.RPC.Message },
			whole: xs(limit - 2), short: notShown(limit + 1),
		},
		"the data of a JSON-RPC error": {
			call:  failing(func(e *toolroom.Error, n int) { e.RPC.Data = json.RawMessage(`"` + xs(n-2) + `"`) }),
			got:   func(r *toolroom.Result) string { return fmt.Sprint(string(r.Error.RPC.Data), r.Error.Details) },
			whole: `"` + xs(limit-2) + `"map[]`, short: "map[rpc_data:" + notShown(limit+1) + "]",
		},
		"a JSON-RPC error as it was sent": {
			call:  failing(func(e *toolroom.Error, n int) { e.RPC.Sent = json.RawMessage(`"` + xs(n-2) + `"`) }),
			got:   func(r *toolroom.Result) string { return fmt.Sprint(string(r.Error.RPC.Sent), r.Error.Details) },
			whole: `"` + xs(limit-2) + `"map[]`, short: "map[rpc_sent:" + notShown(limit+1) + "]",
		},
		"an error as it was sent": {
			call: func(n int) (*source.Output, error) {
				return &source.Output{Raw: json.RawMessage(`"` + xs(n+limit-2) + `"`)}, toolroom.Errorf(toolroom.CodeUpstreamError, "it failed")
			},
			got: func(r *toolroom.Result) string { return fmt.Sprint(len(r.Raw)) }, whole: "6000", short: "0",
		},
		"a detail, for a caller who wants all": {
			limit: -1,
			call:  failing(func(e *toolroom.Error, n int) { e.Details = map[string]any{"body": xs(n - 2), "bad": func() {}} }),
			got: func(r *toolroom.Result) string {
				return fmt.Sprint(len(r.Error.Details["body"].(string)) >= limit-2, r.Error.Details["bad"])
			},
			whole: "true[cannot be written as JSON]", short: "true[cannot be written as JSON]",
		},
		"all of an error, for a caller who wants all": {
			limit: -1,
			call: failing(func(e *toolroom.Error, n int) {
				e.Message, e.Hint, e.CLIHint, e.RPC.Message = xs(n), xs(n), xs(n), xs(n)
			}),
			got: func(r *toolroom.Result) string {
				e := r.Error
				return fmt.Sprint(min(len(e.Message), len(e.Hint), len(e.CLIHint), len(e.RPC.Message)) >= limit, r.Hidden)
			},
			whole: "true <nil>", short: "true <nil>",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := "cut:" + regexp.MustCompile(`[^a-z]+`).ReplaceAllString(strings.ToLower(name), "_")
			more := 0
			b.add(tool(id), func(context.Context, *source.Request) (*source.Output, error) { return c.call(limit + more) })
			for _, want := range []string{c.whole, c.short} {
				r := b.Run(t.Context(), toolroom.Call{Tool: id, MaxOutput: c.limit})
				if got := c.got(r); got != want {
					t.Errorf("%d bytes more: got %.3000s\nwant %.3000s\n%v", more, got, want, r.Error)
				}
				more++
			}
		})
	}
}

func TestALongValueIsShownOnceOrCutByItsTexts(t *testing.T) {
	t.Parallel()
	const limit = 1000
	b := newBench(t, func(o *run.Options) { o.Artifacts = newKept() })
	long, list := xs(1500), func(n int) string { return `["` + xs(n-4) + `"]` }
	shown := cutTo(1500, limit, 0)
	encoded := func(text string) string {
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	four := `"a":"` + xs(400) + `","b":"` + xs(400) + `","c":"` + xs(400) + `","d":"` + xs(400) + `"`
	part := func(n int) string { return encoded(cutTo(400, n, 0)) }
	for name, c := range map[string]struct {
		text, value string
		want        string // empty if the value is cut as the text of its JSON
		texts       int
		kept        int
	}{
		"the value is the text":            {long, encoded(long), encoded(shown), 1, 1},
		"its only member is the text":      {long, `{"result":` + encoded(long) + `}`, encoded(shown), 1, 1},
		"it is the text in white space":    {"[" + long + "]", `"[` + long + `]"`, encoded("[" + xs(749) + "\n[Output truncated - 502 bytes hidden; read them: artifact art_1 from byte 750]\n" + xs(249) + "]"), 1, 1},
		"one of two members is the text":   {long, `{"o":` + encoded(long) + `,"n":1}`, `{"o":` + encoded(shown) + `,"n":1}`, 1, 1},
		"with a line feed":                 {long, `{"o":` + encoded(long+"\n") + `,"n":1}`, `{"o":` + encoded(shown) + `,"n":1}`, 1, 1},
		"with a carriage return":           {long, `{"o":` + encoded(long+"\r\n") + `,"n":1}`, `{"o":` + encoded(shown) + `,"n":1}`, 1, 1},
		"with an empty line":               {long, `{"o":` + encoded(long+"\n\n") + `,"n":1}`, `{"o":` + encoded(cutTo(1500, 997, 0)) + `,"n":1}`, 1, 1},
		"both members are the text":        {long, `{"o":` + encoded(long) + `,"p":` + encoded(long) + `}`, `{"o":` + encoded(shown) + `,"p":` + encoded(cutTo(1500, 998, 0)) + `}`, 1, 1},
		"a member is a part of the text":   {"ab" + long, `{"o":` + encoded(" "+long) + `,"n":1}`, `{"o":` + encoded(cutTo(1500, 997, 2)) + `,"n":1}`, 1, 1},
		"a member is the text of a list":   {long, `{"o":["` + long + `"],"n":1}`, "", 2, 2},
		"its only member is another text":  {long, `{"result":"y` + long[1:] + `"}`, `{"result":` + strings.Replace(encoded(cutTo(1500, 994, 0)), "x", "y", 1) + `}`, 1, 2},
		"its only member is the list":      {list(1500), `{"result":` + list(1500) + `}`, "", 2, 2},
		"it is another list":               {list(1500), `[` + list(1500) + `]`, "", 2, 2},
		"a short text is a member":         {xs(200), `{"o":` + encoded(xs(200)+"\n") + `,"l":"` + long + `"}`, `{"o":` + encoded(xs(200)+"\n") + `,"l":` + encoded(cutTo(1500, 998, 0)) + `}`, 1, 1},
		"four long texts":                  {"t", `{` + four + `}`, `{"a":` + part(249) + `,"b":` + part(249) + `,"c":` + part(249) + `,"d":` + part(249) + `}`, 1, 4},
		"four, and one not so long":        {"t", `{` + four + `,"e":"` + xs(123) + `"}`, `{"a":` + part(217) + `,"b":` + part(217) + `,"c":` + part(217) + `,"d":` + part(217) + `,"e":"` + xs(123) + `"}`, 1, 4},
		"five long texts":                  {"t", `{` + four + `,"e":"` + xs(124) + `"}`, "", 2, 1},
		"half of it is no text":            {"t", `{"l":"` + long + `","n":` + list(498) + `}`, `{"l":` + encoded(cutTo(1500, 500, 0)) + `,"n":` + list(498) + `}`, 1, 1},
		"more than half of it is no text":  {"t", `{"l":"` + long + `","n":` + list(499) + `}`, "", 2, 1},
		"its long text is half of it":      {"t", `{"l":"` + xs(500) + `","n":` + list(498) + `}`, `{"l":"` + xs(500) + `","n":` + list(498) + `}`, 1, 0},
		"its long text is more":            {"t", `{"l":"` + xs(501) + `","n":` + list(498) + `}`, `{"l":` + encoded(cutTo(501, 500, 0)) + `,"n":` + list(498) + `}`, 1, 1},
		"its members are many short texts": {"t", `{` + strings.TrimSuffix(strings.Repeat(`"a":"`+xs(100)+`",`, 10), ",") + `}`, "", 2, 1},
	} {
		id := "value:" + strings.NewReplacer(" ", "_", ",", "").Replace(name)
		b.add(tool(id), output(&source.Output{Value: json.RawMessage(c.value), Content: []toolroom.Content{toolroom.TextContent(c.text)}}))
		r := b.Run(t.Context(), toolroom.Call{Tool: id, MaxOutput: limit})
		if !r.OK() || c.want != "" && string(r.Value) != c.want || len(r.Content) != c.texts || len(r.Artifacts) != c.kept {
			t.Errorf("%s: %v: %d texts, %d kept, got %.2500s\nwant %.2500s", name, r.Error, len(r.Content), len(r.Artifacts), r.Value, c.want)
			continue
		}
		if c.want == "" {
			first := r.Content[0].Text
			if got, whole := r.Content[1].Text, c.value; string(r.Value) != encoded(got) || wantCut(t, got, whole, max(limit-len(first), 0)) == 0 {
				t.Errorf("%s: %.2000s", name, r.Value)
			}
		}
	}
}

func TestALongValueWithoutATextIsCutOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) { o.Artifacts = newKept() })
	image := toolroom.Content{Type: toolroom.ContentImage, MIMEType: "image/png", Data: []byte("PNG")}
	for id, out := range map[string]*source.Output{
		"long:value": {Value: json.RawMessage(`"` + xs(1500) + `"`)},
		"long:image": {Value: json.RawMessage(`"` + xs(1500) + `"`), Content: []toolroom.Content{image}},
		"long:other": {Value: json.RawMessage(xs(1500))}, // which is no JSON
	} {
		b.add(tool(id), output(out))
		r := b.Run(t.Context(), toolroom.Call{Tool: id, MaxOutput: 1000})
		if text := cutTo(1500, 1000, 0); r.Text() != text || string(r.Value) != encode(t, text) || len(r.Artifacts) != 1 || len(r.Content) != 1+len(out.Content) {
			t.Errorf("%s: %d pieces, %d kept, %.1500s, %v", id, len(r.Content), len(r.Artifacts), r.Value, r.Error)
		}
	}
}

func TestWhatIsCutIsNotLeftInTheFormInWhichItWasSent(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) { o.Artifacts = newKept() })
	text := func(n int) []toolroom.Content { return []toolroom.Content{toolroom.TextContent(xs(n))} }
	image := []toolroom.Content{{Type: toolroom.ContentImage, Data: make([]byte, 5<<20)}}
	blobs, err := json.Marshal(image)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		out   source.Output
		limit int
		err   error
		raw   bool   // is left
		value string // if it matters
	}{
		"nothing is cut":              {out: source.Output{Content: text(100)}, raw: true},
		"a text":                      {out: source.Output{Content: text(4000)}},
		"a text beside a value":       {out: source.Output{Value: json.RawMessage(`{"a":1}`), Content: text(4000)}, value: `{"a":1}`},
		"a value beside a text":       {out: source.Output{Value: json.RawMessage(`["` + xs(4000) + `"]`), Content: text(1)}},
		"white space":                 {out: source.Output{Value: json.RawMessage(`[1` + strings.Repeat(" ", 4000) + `]`), Content: []toolroom.Content{toolroom.TextContent("[1]")}}, value: `[1]`},
		"an image":                    {out: source.Output{Content: image}, value: `[{"type":"resource_link","uri":"toolroom://artifacts/art_1"}]`},
		"an image beside a value":     {out: source.Output{Value: json.RawMessage(`{"a":1}`), Content: image}, value: `{"a":1}`},
		"an image, of a result whole": {out: source.Output{Content: image}, limit: -1, value: string(blobs)},
		"what is long only in JSON":   {out: source.Output{Value: json.RawMessage(`"` + strings.Repeat(`\"`, 2000) + `"`)}, raw: true},
		"a short error":               {err: toolroom.Errorf(toolroom.CodeUpstreamError, "no"), raw: true},
		"an error":                    {err: toolroom.Errorf(toolroom.CodeUpstreamError, "%s", xs(4000))},
	} {
		id := "raw:" + strings.NewReplacer(" ", "_", ",", "").Replace(name)
		c.out.Raw = json.RawMessage(`{"sent":"` + xs(100) + `"}`)
		b.add(tool(id), func(context.Context, *source.Request) (*source.Output, error) { return &c.out, c.err })
		r := b.Run(t.Context(), toolroom.Call{Tool: id, MaxOutput: cmp.Or(c.limit, 3000)})
		if (len(r.Raw) > 0) != c.raw || c.value != "" && string(r.Value) != c.value {
			t.Errorf("%s: raw %.100s, value %.200s", name, r.Raw, r.Value)
		}
	}
}

func TestOnlyPiecesThatAreTooLongAreMovedAndWhole(t *testing.T) {
	t.Parallel()
	const limit = 3000
	text, raw := xs(limit+1), json.RawMessage(`"`+strings.Repeat("r", limit)+`"`)
	image := toolroom.Content{Type: toolroom.ContentImage, MIMEType: "image/png", Data: make([]byte, 2500), Raw: raw}
	embedded := toolroom.Content{Type: toolroom.ContentResource, Text: text}
	novel := toolroom.Content{Type: "novel", Raw: raw}
	for name, c := range map[string]struct {
		piece toolroom.Content
		limit int
		kept  string
	}{
		"an embedded text":               {embedded, limit, text},
		"another piece":                  {novel, limit, string(raw)},
		"an image":                       {image, limit, ""},
		"an embedded text, of a whole":   {embedded, -1, ""},
		"another piece, of a whole":      {novel, -1, ""},
		"a text, which is cut as a text": {toolroom.TextContent(xs(limit)), limit, ""},
	} {
		store := newKept()
		b := newBench(t, func(o *run.Options) { o.Artifacts, o.Limits.OutputBytes = store, limit })
		b.add(tool("piece:it"), output(&source.Output{Value: json.RawMessage(`1`), Content: []toolroom.Content{c.piece}}))
		r := b.Run(t.Context(), toolroom.Call{Tool: "piece:it", MaxOutput: c.limit})
		if moved := r.Content[0].Type == toolroom.ContentResourceLink; store.String() != c.kept || moved != (c.kept != "") || len(r.Content) != 1 {
			t.Errorf("%s: kept %.100s, %d pieces of %s", name, store, len(r.Content), r.Content[0].Type)
		}
	}
}

// fullStore is an artifact store that keeps nothing, and notes the labels of what it is given.
type fullStore struct {
	why    error
	labels []string
}

func (s *fullStore) PutResult(ctx context.Context, _, _, _ string, _ []byte, _ bool) (toolroom.Artifact, error) {
	for _, l := range run.TaintOf(ctx) {
		s.labels = append(s.labels, l.String())
	}
	return toolroom.Artifact{}, s.why
}

func TestAResultThatWasNotKeptSaysWhyWithoutTheFaultsOfTheStore(t *testing.T) {
	t.Parallel()
	for why, want := range map[error]string{
		toolroom.Errorf(toolroom.CodeResourceLimit, "all space is in use"): "all space is in use",
		toolroom.Errorf(toolroom.CodeInternal, "write /data/x: EIO"):       "the store failed",
		errors.New("write /data/x: EIO"):                                   "the store failed",
	} {
		store := &fullStore{why: why}
		b := newBench(t, func(o *run.Options) {
			o.Artifacts = store
			o.Trust = func(tool *toolroom.Tool) run.Trust { return run.Trust{Labels: []string{tool.ID.Namespace}} }
		})
		b.add(tool("private:it"), output(&source.Output{Content: []toolroom.Content{toolroom.TextContent(xs(2000))}}))
		r := b.Run(t.Context(), toolroom.Call{Tool: "private:it", MaxOutput: 100})
		if note := noteText.FindString(r.Text()); !r.OK() || note != "\n[Output truncated - 1900 bytes hidden; they were not kept: "+want+"]\n" {
			t.Errorf("%v: %s, %v", why, note, r.Error)
		}
		if got := strings.Join(store.labels, " "); got != "private from private:it" {
			t.Errorf("it is stored with the labels %q", got)
		}
	}
}
