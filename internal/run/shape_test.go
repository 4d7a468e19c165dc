package run_test

import (
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
