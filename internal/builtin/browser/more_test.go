package browser_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/builtin/browser"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

// keeping gives a pack a store of artifacts.
func keeping(t *testing.T) (*artifact.Store, func(*browser.Options)) {
	t.Helper()
	index, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { index.Close() })
	kept, err := artifact.Open(t.Context(), t.TempDir(), index, artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	secrets := &secret.Redactor{}
	secrets.Learn(map[secret.Ref]string{{Scope: "long", Name: "line"}: "line 2998"})
	return kept, func(o *browser.Options) { o.Artifacts, o.MaxDownload, o.Secrets = kept, 1<<20, secrets }
}

// within waits until something is so.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// chromiums counts the processes that use the profiles of a rig.
func (r *rig) chromiums() int {
	if runtime.GOOS != "linux" {
		r.t.Skip("needs /proc")
	}
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		r.t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		text, err := os.ReadFile(e)
		if err == nil && bytes.Contains(text, []byte("--user-data-dir="+r.scratch)) {
			n++
		}
	}
	return n
}

func TestDownloadsAreArtifacts(t *testing.T) {
	t.Parallel()
	kept, with := keeping(t)
	r := newRig(t, with)
	// A download may begin or go on after the call.
	download := func(o outcome) outcome {
		for end := time.Now().Add(time.Minute); (len(o.Downloads) == 0 || o.Downloads[0].State == "inProgress") && time.Now().Before(end); {
			o = r.call("wait_for", map[string]any{"selector": "body"})
		}
		return o
	}
	r.open("/downloads")
	o := download(r.call("click", map[string]any{"ref": r.ref("Get it")}))
	if len(o.Downloads) != 1 || o.Downloads[0].Name != "report.csv" || o.Downloads[0].State != "completed" {
		t.Fatalf("got %+v", o.Downloads)
	}
	f, about, err := kept.Open(t.Context(), toolroom.Identity{}.Key(), o.Downloads[0].Handle)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if data, err := io.ReadAll(f); err != nil || string(data) != "a,b\n1,2\n" || about.Name != "report.csv" {
		t.Errorf("%q %+v %v", data, about, err)
	}
	if _, _, err := kept.Open(t.Context(), toolroom.Identity{Subject: "bob"}.Key(), o.Downloads[0].Handle); err == nil {
		t.Error("another identity has the download")
	}
	o = download(r.call("click", map[string]any{"selector": "#big"}))
	if len(o.Downloads) != 1 || o.Downloads[0].Handle != "" || !strings.Contains(o.Downloads[0].Error, "max_download") {
		t.Errorf("got %+v", o.Downloads)
	}
	// A direct address is a download as well.
	if o = download(r.open("/file")); len(o.Downloads) != 1 || o.Downloads[0].Handle == "" {
		t.Errorf("got %+v", o.Downloads)
	}
}

func TestALongPageIsCutAndKeptWhole(t *testing.T) {
	t.Parallel()
	kept, with := keeping(t)
	r := newRig(t, with)
	o := r.open("/long")
	if len(o.Changes) > 8<<10 || o.Hidden < 1000 || o.Outcome.Tree == "" && o.Tree == "" {
		t.Fatalf("%d bytes, %d hidden, tree %q", len(o.Changes), o.Hidden, o.Tree)
	}
	f, _, err := kept.Open(t.Context(), toolroom.Identity{}.Key(), o.Tree)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if data, err := io.ReadAll(f); err != nil || !strings.Contains(string(data), "line 2999") || strings.Contains(string(data), "line 2998") {
		t.Errorf("%d bytes, %v: want all lines but the secret", len(data), err)
	}
	if found := r.call("find", map[string]any{"text": "line 2999", "around": 1}); found.Matches != 1 || !strings.Contains(found.Lines, "line 2998") {
		t.Errorf("got %+v", found)
	}
}

func TestPagesAreReadExtractedCheckedAndShown(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.open("/list")
	r.has(r.call("content", nil).Content, "# List", "Brie")
	r.has(r.call("content", map[string]any{"format": "text", "selector": "#prices"}).Content, "Feta")
	r.has(r.call("content", map[string]any{"format": "html"}).Content, "<li>one</li>")
	o := r.call("extract", map[string]any{"selector": "#prices"})
	if fmt.Sprint(o.Rows) != "[map[Name:Brie Price:4] map[Name:Feta Price:3]]" {
		t.Errorf("got %v", o.Rows)
	}
	o = r.call("extract", map[string]any{"selector": ".card", "fields": map[string]any{"name": "b", "link": "a@href"}})
	if fmt.Sprint(o.Rows) != fmt.Sprintf("[map[link:%s/r name:Red] map[link:%s/b name:Blue]]", r.site.URL, r.site.URL) {
		t.Errorf("got %v", o.Rows)
	}
	r.fails(toolroom.CodeExecutionFailed, "extract", map[string]any{"selector": "]["})
	for _, args := range []map[string]any{{}, {"full_page": true}, {"selector": "#prices"}} {
		o = r.call("screenshot", args)
		if picture, err := png.Decode(bytes.NewReader(o.images[0])); err != nil || picture.Bounds().Dx() < 20 {
			t.Errorf("%v: %v", args, err)
		}
	}
	if o = r.call("assert", map[string]any{"text": "Brie", "selector": ".card", "count": 2, "url": "*/list", "title": "Lis", "no_text": "Gouda"}); !o.OK {
		t.Errorf("got %s", o.text)
	}
	o = r.call("assert", map[string]any{"text": "Gouda", "gone": ".card", "url": "/home", "title": "Home"})
	if o.OK {
		t.Error("it holds")
	}
	r.has(o.text, `does not show "Gouda"`, "2 visible elements", "the address is", "the title is")
	r.fails(toolroom.CodeInvalidArguments, "assert", nil)
}

func TestJavaScriptRunsInThePage(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.open("/list")
	if o := r.call("eval", map[string]any{"expression": "fetch('/').then(r => r.status)"}); string(o.Value) != "200" {
		t.Errorf("got %s", o.Value)
	}
	o := r.call("eval", map[string]any{"expression": "document.querySelector('h1').textContent = 'New'"})
	r.has(o.Changes, "New")
	if o := r.call("eval", map[string]any{"expression": "e => e.tagName", "selector": "#prices"}); string(o.Value) != `"TABLE"` {
		t.Errorf("got %s", o.Value)
	}
	r.has(r.fails(toolroom.CodeExecutionFailed, "eval", map[string]any{"expression": "nothing.at.all"}), "nothing is not defined")
}

func TestAToolWaitsForThePage(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.open("/later")
	r.has(r.call("wait_for", map[string]any{"text": "Ready now", "gone": "#spinner"}).text, "Ready now")
	r.has(r.fails(toolroom.CodeTimeout, "wait_for", map[string]any{"text": "never", "timeout": 300}), `does not show "never"`)
}

func TestACheckpointKeepsCookiesStorageAndAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.open("/login")
	r.call("type", map[string]any{"selector": "[name=user]", "text": "ann"})
	r.call("type", map[string]any{"selector": "[name=password]", "text": "cheese"})
	r.call("click", map[string]any{"selector": "button"})
	r.call("eval", map[string]any{"expression": "localStorage.setItem('k', 'L'); sessionStorage.setItem('k', 'S')"})
	r.call("checkpoint.save", map[string]any{"name": "shop"})
	r.call("close", nil)
	if o := r.open("/home"); o.Status != 403 {
		t.Fatalf("a new browser is logged in: %+v", o)
	}
	o := r.call("checkpoint.resume", map[string]any{"name": "shop"})
	if o.URL != r.site.URL+"/home" {
		t.Errorf("got %+v", o)
	}
	r.has(o.Changes, "Welcome, Ann", "stored L S")
	r.fails(toolroom.CodeNotFound, "checkpoint.resume", map[string]any{"name": "other"})
	if _, err := r.as(t.Context(), "bob", "s", "checkpoint.resume", map[string]any{"name": "shop"}); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("another identity has the checkpoint: %v", err)
	}
	for _, who := range narrowed {
		if _, err := r.by(t.Context(), who, "s", "checkpoint.resume", map[string]any{"name": "shop"}); toolroom.CodeOf(err) != toolroom.CodeNotFound {
			t.Errorf("%+v has the checkpoint: %v", who, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(r.state, "*", "shop.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if data, err := os.ReadFile(files[0]); err != nil || bytes.Contains(data, []byte("ann-1")) {
		t.Errorf("the cookie is not sealed: %v", err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
}

func TestCancelEndsTheWorkAndTheBrowserGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, c := range []struct {
		tool string
		args map[string]any
	}{
		{"eval", map[string]any{"expression": "for (;;);"}},
		{"eval", map[string]any{"expression": "new Promise(() => {})"}},
		{"click", map[string]any{"selector": "button"}},
		{"navigate", map[string]any{"url": r.site.URL + "/slow"}},
	} {
		r.open("/loop")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if o, err := r.try(ctx, c.tool, c.args); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v %s", c.tool, err, o.text)
		}
		cancel()
		if o := r.call("navigate", map[string]any{"url": r.site.URL + "/list"}); o.Title != "List" {
			t.Errorf("after %s: %+v", c.tool, o)
		}
	}
}

func TestAnIdleBrowserEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *browser.Options) { o.Idle = 100 * time.Millisecond })
	r.open("/")
	within(t, "it goes on", func() bool { return r.chromiums() == 0 })
	r.fails(toolroom.CodeNotFound, "snapshot", nil)
}

func TestCloseKillsChromiumAndRemovesItsFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.open("/")
	if r.chromiums() == 0 {
		t.Fatal("no Chromium is found")
	}
	if err := r.src.Close(); err != nil {
		t.Fatal(err)
	}
	within(t, "Chromium goes on", func() bool { return r.chromiums() == 0 })
	if left, err := os.ReadDir(r.scratch); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

func TestTheNumberOfBrowsersIsLimited(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *browser.Options) { o.Max = 1 })
	r.open("/")
	_, err := r.as(t.Context(), "bob", "s", "navigate", map[string]any{"url": r.site.URL})
	if toolroom.CodeOf(err) != toolroom.CodeResourceLimit {
		t.Error(err)
	}
	r.call("close", nil)
	if _, err := r.as(t.Context(), "bob", "s", "navigate", map[string]any{"url": r.site.URL}); err != nil {
		t.Error(err)
	}
}

func TestTabsAreListedSelectedAndClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.open("/windows")
	o := r.call("click", map[string]any{"ref": r.ref("New tab")})
	if len(o.Tabs) != 2 {
		t.Fatalf("got %+v", o.Tabs)
	}
	r.call("tabs", map[string]any{"select": o.Tabs[1].Number})
	r.has(r.call("snapshot", nil).Tree, "Brie")
	if o = r.call("tabs", map[string]any{"close": o.Tabs[1].Number}); len(o.Tabs) != 1 || !o.Tabs[0].Selected {
		t.Errorf("got %+v", o.Tabs)
	}
	r.fails(toolroom.CodeNotFound, "tabs", map[string]any{"select": 77})
}

// WebRTC would tell the page addresses of this machine, and send around the proxy.
func TestWebRTCSendsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.open("/leak")
	o := r.call("wait_for", map[string]any{"text": "candidates", "timeout": 120_000})
	r.has(o.text+r.call("snapshot", nil).Tree, "candidates 0")
}

func TestAPackWithoutChromiumSaysWhatToDo(t *testing.T) {
	t.Parallel()
	missing := browser.Pack(browser.Options{Environ: []string{"PATH=" + t.TempDir()}}).Missing
	if missing == nil || !strings.Contains(missing.Hint, "apt-get install -y chromium") {
		t.Errorf("got %v", missing)
	}
	if missing = browser.Pack(browser.Options{Path: "/nowhere/chromium"}).Missing; missing == nil || !strings.Contains(missing.Message, "builtin.browser.path") {
		t.Errorf("got %v", missing)
	}
}
