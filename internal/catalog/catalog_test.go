package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

func tool(id string, change ...func(*toolroom.Tool)) toolroom.Tool {
	t := toolroom.Tool{ID: toolroom.MustParseID(id), Source: toolroom.SourceGo}
	for _, f := range change {
		f(&t)
	}
	return t
}

func aliases(names ...string) func(*toolroom.Tool) {
	return func(t *toolroom.Tool) { t.Aliases = names }
}

func from(kind toolroom.SourceKind) func(*toolroom.Tool) {
	return func(t *toolroom.Tool) { t.Source = kind }
}

func hidden(t *toolroom.Tool) { t.Hidden = true }

func register(t testing.TB, c *Catalog, provider string, tools ...toolroom.Tool) {
	t.Helper()
	for _, tool := range tools {
		if err := c.Register(provider, nil, tool); err != nil {
			t.Fatal(err)
		}
	}
}

func listed(entries []*Entry) []string {
	ids := []string{}
	for _, e := range entries {
		ids = append(ids, e.Tool.ID.Unversioned().String())
	}
	return ids
}

func wantIDs(t *testing.T, c *Catalog, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), listed(c.All(nil))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestToolsComeAreReplacedAndGo(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	register(t, c, "p", tool("b:y"), tool("a:x@1"), tool("a:x@2"))
	wantIDs(t, c, "a:x", "b:y")
	if e, err := c.Resolve("a:x", nil); err != nil || e.Tool.ID.Version != "2" {
		t.Errorf("the replaced tool is %+v, %v", e, err)
	}
	if !c.Unregister("p", toolroom.MustParseID("a:x@1")) || c.Unregister("p", toolroom.MustParseID("a:x")) {
		t.Error("Unregister does not tell whether the tool was there")
	}
	wantIDs(t, c, "b:y")
	if err := c.SetProvider("p", nil, []toolroom.Tool{tool("c:z"), tool("c:z"), {}}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a tool that is listed twice: %v", err)
	}
	wantIDs(t, c, "c:z")
	c.RemoveProvider("p")
	if c.Len() != 0 || c.Search("z", SearchOptions{}).Total != 0 {
		t.Error("tools of a removed provider are still here")
	}
}

func TestLocalBeatsProviderBeatsMCP(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	serving := func() string {
		e, err := c.Resolve("a:x", nil)
		if err != nil {
			t.Fatal(err)
		}
		return e.Provider
	}
	for _, step := range []struct {
		provider string
		kind     toolroom.SourceKind
	}{{"mcp", toolroom.SourceMCP}, {"http", toolroom.SourceHTTP}, {"cli", toolroom.SourceCLI}, {"go", toolroom.SourceGo}} {
		register(t, c, step.provider, tool("a:x", from(step.kind)))
		if want := step.provider; want != "cli" && serving() != want {
			t.Errorf("with %s there, %s serves", want, serving())
		}
	}
	for _, step := range [][2]string{{"go", "http"}, {"http", "cli"}, {"cli", "mcp"}} {
		c.RemoveProvider(step[0])
		if got := serving(); got != step[1] {
			t.Errorf("without %s, %s serves, want %s", step[0], got, step[1])
		}
	}
}

func TestASelectorOfYourOwnDecides(t *testing.T) {
	t.Parallel()
	c := New(Options{Selector: func(offers []*Entry) *Entry { return offers[len(offers)-1] }})
	register(t, c, "go", tool("a:x"))
	register(t, c, "mcp", tool("a:x", from(toolroom.SourceMCP)))
	if e, err := c.Resolve("a:x", nil); err != nil || e.Provider != "mcp" {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestHiddenToolsAreCalledButNotSeen(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	register(t, c, "p", tool("a:secretive", hidden), tool("a:plain"))
	wantIDs(t, c, "a:plain")
	if _, err := c.Resolve("a:secretive", nil); err != nil {
		t.Error(err)
	}
	if found := c.Search("secretive", SearchOptions{}); len(found.Hits) != 0 {
		t.Errorf("search found %+v", found.Hits)
	}
	if page, err := c.List(ListOptions{Hidden: true}); err != nil || len(page.Entries) != 2 {
		t.Errorf("with hidden ones the list is %v, %v", listed(page.Entries), err)
	}
}

func TestAnAliasTakesNoOtherPlace(t *testing.T) {
	t.Parallel()
	for _, alias := range []string{"file:read", "file.read", "file__read", "mcp:file:read", "mcp:file/read", "read", "r"} {
		c := New(Options{})
		register(t, c, "p", tool("file:read", aliases("r")))
		err := c.Register("p", nil, tool("web:get", aliases(alias)))
		if toolroom.CodeOf(err) != toolroom.CodeConflict {
			t.Errorf("the alias %q of web:get: %v, want conflict", alias, err)
		}
		wantIDs(t, c, "file:read")
	}

	c := New(Options{})
	register(t, c, "p", tool("web:get", aliases("file:read", "file__read", "read")))
	register(t, c, "p", tool("file:read"))
	for spelling, want := range map[string]string{"file:read": "file:read", "file__read": "file:read", "web:get": "web:get"} {
		if e, err := c.Resolve(spelling, nil); err != nil || e.Tool.ID.String() != want {
			t.Errorf("%s means %v, %v, want %s", spelling, e, err, want)
		}
	}
	if _, err := c.Resolve("read", nil); toolroom.CodeOf(err) != toolroom.CodeAmbiguousTool {
		t.Errorf("an alias and a later tool of that name: %v, want ambiguous_tool", err)
	}
}

func TestAnAliasStaysWhileOneProviderHasIt(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	register(t, c, "one", tool("file:read", aliases("cat")))
	register(t, c, "two", tool("file:read", aliases("cat")))
	c.RemoveProvider("one")
	if _, err := c.Resolve("cat", nil); err != nil {
		t.Error(err)
	}
	c.RemoveProvider("two")
	if _, err := c.Resolve("cat", nil); err == nil {
		t.Error("the alias outlives its tool")
	}
}

func TestWhoIsListedFirstHasTheAlias(t *testing.T) {
	t.Parallel()
	for range 20 {
		c := New(Options{})
		if err := c.SetProvider("p", nil, []toolroom.Tool{tool("a:x", aliases("n")), tool("a:y", aliases("n"))}); toolroom.CodeOf(err) != toolroom.CodeConflict {
			t.Fatalf("got %v, want conflict", err)
		}
		wantIDs(t, c, "a:x")
	}
}

func TestResolveReadsEverySpelling(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	long := strings.Repeat("n", 70)
	register(t, c, "p", tool("file:read@2", aliases("cat")), tool("web:search.news"), tool("big:"+long), tool("a:same"), tool("b:same"))
	for spelling, want := range map[string]string{
		"file:read": "file:read@2", "file:read@2": "file:read@2", "file.read": "file:read@2", "file__read": "file:read@2",
		"mcp:file:read": "file:read@2", "mcp:file/read": "file:read@2", "read": "file:read@2", "read@2": "file:read@2", "cat": "file:read@2",
		"web.search.news": "web:search.news", "search.news": "web:search.news", "a.same": "a:same",
		toolroom.ModelName(toolroom.ID{Namespace: "big", Name: long}):          "big:" + long,
		toolroom.ModelName(toolroom.ID{Namespace: "web", Name: "search.news"}): "web:search.news",
	} {
		if e, err := c.Resolve(spelling, nil); err != nil || e.Tool.ID.String() != want {
			t.Errorf("%s: %v, want %s", spelling, err, want)
		}
	}
	for spelling, want := range map[string]toolroom.Code{
		"file:read@3": toolroom.CodeToolNotFound, "nothing": toolroom.CodeToolNotFound, "same": toolroom.CodeAmbiguousTool,
		"": toolroom.CodeInvalidID, "a b": toolroom.CodeInvalidID, "file:": toolroom.CodeInvalidID,
	} {
		if _, err := c.Resolve(spelling, nil); toolroom.CodeOf(err) != want || toolroom.AsError(err).Hints() == "" {
			t.Errorf("%q: %v, want %s with a hint", spelling, err, want)
		}
	}
}

func TestErrorsNameWhatTheCallerMaySee(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	register(t, c, "p", tool("a:same"), tool("b:same"), tool("secret:same"), tool("secret:filereader"))
	open := func(e *Entry) bool { return e.Tool.ID.Namespace != "secret" }
	_, err := c.Resolve("same", open)
	want := map[string]any{"candidates": []string{"a:same", "b:same"}}
	if diff := cmp.Diff(want, toolroom.AsError(err).Details); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, spelling := range []string{"same", "filereaders", "secret:sam", "zzz"} {
		_, err := c.Resolve(spelling, open)
		text, _ := json.Marshal(toolroom.AsError(err))
		if shown := strings.ReplaceAll(string(text), "secret:sam\\\"", ""); strings.Contains(shown, "secret:") || strings.Contains(shown, "4 tools") {
			t.Errorf("%s tells of what is not visible: %s", spelling, text)
		}
	}
	_, err = c.Resolve("filereaders", nil)
	if diff := cmp.Diff(map[string]any{"nearest": []string{"secret:filereader"}}, toolroom.AsError(err).Details); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestASlipInANameOfManyToolsNamesTheToolOfItsNamespace(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	register(t, c, "p", tool("git:log"), tool("git:ls-files"), tool("git:init"), tool("other:lgo_list"))
	for _, slip := range []string{"git:lgo", "git:lg"} {
		_, err := c.Resolve(slip, nil)
		if got, _ := toolroom.AsError(err).Details["nearest"].([]string); len(got) == 0 || got[0] != "git:log" {
			t.Errorf("the nearest of %s are %v, want git:log first", slip, got)
		}
	}
	_, err := c.Resolve("git:lgo", func(e *Entry) bool { return e.Tool.ID.Name != "log" })
	if got, _ := toolroom.AsError(err).Details["nearest"].([]string); slices.Contains(got, "git:log") {
		t.Errorf("a tool that is not visible is named: %v", got)
	}
	_, err = c.Resolve("int", nil)
	if got, _ := toolroom.AsError(err).Details["nearest"].([]string); len(got) == 0 || got[0] != "git:init" {
		t.Errorf("the nearest of a name without namespace are %v, want git:init first", got)
	}
}

func TestWhatMayHaveBeenMeantIsInTheNamespaceThatWasTyped(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	add, read := tool("todo:add_item"), tool("files:read")
	add.Title, read.Title = "Add every item", "Read"
	register(t, c, "p", add, read, tool("file:list"), tool("every:list"))
	for spelling, want := range map[string][]string{
		"every:add":     nil,               // the namespace is there
		"evry:list":     {"every:list"},    // nearly
		"storage:read":  {"files:read"},    // the same name elsewhere
		"nothing:item":  nil,               // nothing is near
		"add_item_list": {"todo:add_item"}, // no namespace was typed
	} {
		_, err := c.Resolve(spelling, nil)
		got, _ := toolroom.AsError(err).Details["nearest"].([]string)
		if len(want) == 0 && len(got) > 0 || len(want) > 0 && (len(got) == 0 || got[0] != want[0]) {
			t.Errorf("%s: %v, want %v", spelling, got, want)
		}
	}
}

// A word that a description has in common with a misspelling says nothing.
func TestOnlyToolsWithLikeNamesAreSuggested(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	patch := tool("file:patch")
	patch.Description = "Change lines, or none of them"
	register(t, c, "p", patch, tool("file:read"))
	_, err := c.Resolve("none", nil)
	if e := toolroom.AsError(err); e.Details != nil || e.Hint != "2 tools are here: search for what you want to do" {
		t.Errorf("%q, %v", e.Hint, e.Details)
	}
}

func TestANamespaceAndWordsInAnotherOrderAreUnderstood(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	register(t, c, "p", tool("file:search"), tool("file:read"), tool("file:list"), tool("file:edit"), tool("shop:item"))
	for spelling, want := range map[string]string{
		"read_file": "did you mean file:read", "file": "file is a namespace; its tools: file:", "shop": "shop is a namespace; its tools: shop:item",
	} {
		_, err := c.Resolve(spelling, nil)
		if e := toolroom.AsError(err); e.Code != toolroom.CodeToolNotFound || !strings.HasPrefix(e.Hint, want) {
			t.Errorf("%s: %v, %q", spelling, err, e.Hint)
		}
	}
	hidden := func(e *Entry) bool { return e.Tool.ID.Namespace != "shop" }
	if _, err := c.Resolve("shop", hidden); strings.Contains(toolroom.AsError(err).Hint, "shop") {
		t.Errorf("a namespace that the caller does not see: %v", err)
	}
}

func TestAListHasNeitherGapNorRepeat(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := New(Options{})
		var want []string
		for i := range rapid.IntRange(0, 30).Draw(t, "tools") {
			id := fmt.Sprintf("%c:t%02d", 'a'+i%3, i)
			entry := tool(id)
			entry.Hidden = i%7 == 6
			if err := c.Register("p", nil, entry); err != nil {
				t.Fatal(err)
			}
			if !entry.Hidden && i%3 == 1 {
				want = append(want, id)
			}
		}
		var got []string
		o := ListOptions{Limit: rapid.IntRange(1, 5).Draw(t, "limit"), Namespace: "b"}
		for {
			page, err := c.List(o)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Entries) > o.Limit || page.Next != "" && len(page.Entries) < o.Limit {
				t.Fatalf("a page of %d, limit %d", len(page.Entries), o.Limit)
			}
			got = append(got, listed(page.Entries)...)
			if o.Cursor = page.Next; o.Cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestACursorHoldsForItsListOnly(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	register(t, c, "p", tool("a:x"), tool("a:y"), tool("b:z"))
	page, err := c.List(ListOptions{Limit: 1, Namespace: "a"})
	if err != nil || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	refused := func(what string, o ListOptions) {
		t.Helper()
		if _, err := c.List(o); toolroom.CodeOf(err) != toolroom.CodeInvalidCursor || toolroom.AsError(err).Hints() == "" {
			t.Errorf("%s: %v, want invalid_cursor with a hint", what, err)
		}
	}
	refused("another namespace", ListOptions{Cursor: page.Next, Namespace: "b"})
	refused("garbage", ListOptions{Cursor: "!!"})
	register(t, c, "p", tool("a:w"))
	refused("a changed list", ListOptions{Cursor: page.Next, Namespace: "a"})
	c.Unregister("p", toolroom.MustParseID("a:w"))
	if _, err := c.List(ListOptions{Cursor: page.Next, Namespace: "a"}); err != nil {
		t.Errorf("the same list again: %v", err)
	}
}

func FuzzCursor(f *testing.F) {
	c := New(Options{})
	register(f, c, "p", tool("a:x"), tool("a:y"))
	page, err := c.List(ListOptions{Limit: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(page.Next)
	f.Add("MSAgIA")
	f.Fuzz(func(t *testing.T, text string) {
		page, err := c.List(ListOptions{Cursor: text})
		if err != nil && toolroom.CodeOf(err) != toolroom.CodeInvalidCursor {
			t.Fatal(err)
		}
		if len(page.Entries) > 2 {
			t.Fatal("a repeat")
		}
	})
}

func TestChangesOfAPeriodAreOneNotice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{})
		notices := make(chan []toolroom.Change, 10)
		cancel := c.Subscribe(func(group []toolroom.Change) { notices <- group })
		id := toolroom.MustParseID("a:x")
		register(t, c, "p", tool("a:x"))
		register(t, c, "p", tool("a:x")) // the same again is no change
		register(t, c, "p", tool("a:x", hidden))
		time.Sleep(149 * time.Millisecond)
		synctest.Wait()
		if len(notices) != 0 {
			t.Fatalf("told too soon: %v", <-notices)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		c.Unregister("p", id)
		time.Sleep(time.Second)
		synctest.Wait()
		cancel()
		register(t, c, "p", tool("a:x"))
		time.Sleep(time.Second)
		synctest.Wait()
		close(notices)
		var got [][]toolroom.Change
		for group := range notices {
			got = append(got, group)
		}
		want := [][]toolroom.Change{{{Kind: toolroom.ChangeRegistered, ID: id}, {Kind: toolroom.ChangeUpdated, ID: id}}, {{Kind: toolroom.ChangeRemoved, ID: id}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

// A search holds the index and asks who serves; a change holds the catalog and
// waits for the index. In the wrong order of locks this never ends.
func TestSearchesGoOnWhileProvidersChange(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for r := range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				visible := func(e *Entry) bool { return e.Provider != "p9" }
				c.Search("read a file", SearchOptions{View: View{Visible: visible}})
				_, _ = c.Resolve(fmt.Sprintf("nothing%d", r), visible)
				if _, err := c.List(ListOptions{View: View{Visible: visible}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for w := range 3 {
		writers.Go(func() {
			provider := fmt.Sprintf("p%d", w)
			for i := range 60 {
				tools := []toolroom.Tool{tool("shared:read_file")}
				for n := range i % 5 {
					tools = append(tools, tool(fmt.Sprintf("%s:read_file_%d", provider, n)))
				}
				if err := c.SetProvider(provider, nil, tools); err != nil {
					t.Error(err)
				}
			}
			c.RemoveProvider(provider)
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if c.Len() != 0 || c.Search("file", SearchOptions{}).Total != 0 {
		t.Error("something is left")
	}
}

func TestACatalogIsTheSetOfWhatItsProvidersOffer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := New(Options{})
		model := map[string]map[string]bool{"p": {}, "q": {}} // provider: its ids
		id := rapid.SampledFrom([]string{"a:x", "a:y", "b:x", "b:z"})
		provider := rapid.SampledFrom([]string{"p", "q"})
		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				p, i := provider.Draw(t, "p"), id.Draw(t, "id")
				if err := c.Register(p, nil, tool(i)); err != nil {
					t.Fatal(err)
				}
				model[p][i] = true
			},
			"unregister": func(t *rapid.T) {
				p, i := provider.Draw(t, "p"), id.Draw(t, "id")
				if c.Unregister(p, toolroom.MustParseID(i)) != model[p][i] {
					t.Fatal("Unregister is wrong about what was there")
				}
				delete(model[p], i)
			},
			"set": func(t *rapid.T) {
				p, ids := provider.Draw(t, "p"), rapid.SliceOfDistinct(id, rapid.ID[string]).Draw(t, "ids")
				model[p] = map[string]bool{}
				var tools []toolroom.Tool
				for _, i := range ids {
					model[p][i] = true
					tools = append(tools, tool(i))
				}
				if err := c.SetProvider(p, nil, tools); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				want := []string{}
				for _, i := range []string{"a:x", "a:y", "b:x", "b:z"} {
					if model["p"][i] || model["q"][i] {
						want = append(want, i)
					}
				}
				if got := listed(c.All(nil)); !slices.Equal(got, want) || c.Len() != len(want) || c.Search("", SearchOptions{}).Total != len(want) {
					t.Fatalf("got %v, want %v", got, want)
				}
				_, err := c.Resolve("x", nil)
				named := 0
				for _, i := range want {
					if strings.HasSuffix(i, ":x") {
						named++
					}
				}
				if code := toolroom.CodeOf(err); code != []toolroom.Code{toolroom.CodeToolNotFound, "", toolroom.CodeAmbiguousTool}[named] {
					t.Fatalf("%d tools are named x, yet %q", named, code)
				}
			},
		})
	})
}

func TestAnIdThatAProviderHasIsReplacedOnPurposeOnly(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	first := tool("a:x", aliases("one"))
	first.Description = "first"
	register(t, c, "p", first, tool("a:y", aliases("taken")))
	second := tool("a:x@2", aliases("two"))
	if err := c.Add("p", nil, second); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Errorf("a second registration: %v, want conflict", err)
	}
	bad := tool("a:x", aliases("taken"))
	if err := c.Register("p", nil, bad); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Errorf("a replacement with a taken alias: %v, want conflict", err)
	}
	bad = tool("a:x")
	bad.Examples = []toolroom.Example{{Arguments: json.RawMessage(`[1]`)}}
	if err := c.Register("p", nil, bad); err == nil {
		t.Error("an example that is no object was taken")
	}
	if e, err := c.Resolve("one", nil); err != nil || e.Tool.Description != "first" {
		t.Errorf("after the refusals: %v, %v", e, err)
	}
	if err := c.Register("p", nil, second); err != nil {
		t.Fatal(err)
	}
	if e, err := c.Resolve("two", nil); err != nil || e.ID != "a:x@2" {
		t.Errorf("after the replacement: %v, %v", e, err)
	}
	if _, err := c.Resolve("one", nil); err == nil {
		t.Error("the alias of the replaced tool is still there")
	}
}

func TestToolsOfANewListMaySwapAliases(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	old, now := &offers{"old"}, &offers{"now"}
	if err := c.SetProvider("p", old, []toolroom.Tool{tool("a:x", aliases("n")), tool("a:y", aliases("m")), tool("a:z", aliases("k"))}); err != nil {
		t.Fatal(err)
	}
	if err := c.SetProvider("p", now, []toolroom.Tool{tool("a:x", aliases("m")), tool("a:y", aliases("n")), tool("a:z", aliases("k"))}); err != nil {
		t.Fatal(err)
	}
	for alias, want := range map[string]string{"m": "a:x", "n": "a:y", "k": "a:z"} {
		if e, err := c.Resolve(alias, nil); err != nil || e.ID != want || e.Source != source.Source(now) {
			t.Errorf("%s means %+v, %v, want %s of the new source", alias, e, err, want)
		}
	}
}

func TestAToolThatIsRefusedInANewListDoesNotStayWithItsOldSource(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	register(t, c, "other", tool("b:t", aliases("taken")))
	old, now := &offers{"old"}, &offers{"now"}
	if err := c.SetProvider("p", old, []toolroom.Tool{tool("a:x"), tool("a:y")}); err != nil {
		t.Fatal(err)
	}
	if err := c.SetProvider("p", now, []toolroom.Tool{tool("a:x", aliases("taken")), tool("a:y")}); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Fatalf("got %v, want conflict", err)
	}
	wantIDs(t, c, "a:y", "b:t")
}

type offers struct{ name string }

func (o *offers) Tools(context.Context) ([]toolroom.Tool, error)                { return nil, nil }
func (o *offers) Call(context.Context, *source.Request) (*source.Output, error) { return nil, nil }
func (o *offers) Close() error                                                  { return nil }

func TestReservedNamespacesAreForBuiltinsAlone(t *testing.T) {
	t.Parallel()
	c := New(Options{Reserved: func(namespace string) error {
		if namespace == "code" {
			return toolroom.Errorf(toolroom.CodeConflict, "reserved")
		}
		return nil
	}})
	if err := c.SetBuiltin("code", nil, []toolroom.Tool{tool("code:execute")}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []toolroom.Tool{tool("code:execute"), tool("code:other"), tool("code:execute@2"), tool("a:x", aliases("code:run"))} {
		if err := c.Add("go", nil, bad); toolroom.CodeOf(err) != toolroom.CodeConflict {
			t.Errorf("%s: %v, want conflict", bad.ID, err)
		}
		if err := c.Register("go", nil, bad); toolroom.CodeOf(err) != toolroom.CodeConflict {
			t.Errorf("%s: %v, want conflict", bad.ID, err)
		}
		if err := c.SetProvider("code", nil, []toolroom.Tool{bad}); toolroom.CodeOf(err) != toolroom.CodeConflict {
			t.Errorf("%s in a list: %v, want conflict", bad.ID, err)
		}
		if err := c.SetBuiltin("code", nil, []toolroom.Tool{tool("code:execute")}); err != nil {
			t.Fatal(err)
		}
	}
	wantIDs(t, c, "code:execute")
}

func TestAnIdOfSeveralProvidersIsToldOnce(t *testing.T) {
	t.Parallel()
	var told []string
	c := New(Options{Shared: func(id toolroom.ID, serves string, providers []string) {
		told = append(told, fmt.Sprint(id, " ", serves, " ", providers))
	}})
	for range 3 {
		if err := c.SetProvider("mcp", nil, []toolroom.Tool{{ID: toolroom.MustParseID("d:x"), Source: toolroom.SourceMCP}}); err != nil {
			t.Fatal(err)
		}
	}
	register(t, c, "go", toolroom.Tool{ID: toolroom.MustParseID("d:x"), Source: toolroom.SourceGo})
	if err := c.SetProvider("mcp", nil, []toolroom.Tool{{ID: toolroom.MustParseID("d:x"), Source: toolroom.SourceMCP}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"d:x go [mcp go]"}, told); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	e, err := c.Resolve("d:x", nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Describe(t.Context(), e, toolroom.LevelSchema, toolroom.FormCLI)
	if err != nil || d.ServedBy != "go" || len(d.Providers) != 2 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestANumberOfANameOrDescriptionIsFound(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	for _, n := range []int{1, 2, 7, 42, 117, 1170} {
		page := tool(fmt.Sprintf("page:t%d", n))
		page.Description = fmt.Sprintf("page tool number %d does things", n)
		named := tool(fmt.Sprintf("name:t%d", n))
		named.Description = "name tool does things"
		register(t, c, "p", page, named)
	}
	for query, want := range map[string]string{
		"number 117": "page:t117", "page tool 42": "page:t42", "page tool number 7": "page:t7", "name tool 117": "name:t117", "t42 name": "name:t42",
	} {
		if found := c.Search(query, SearchOptions{}); len(found.Hits) == 0 || found.Hits[0].ID != want {
			t.Errorf("%s: %+v, want %s first", query, found.Hits, want)
		}
	}
	for _, query := range []string{"7", "117"} {
		found := c.Search(query, SearchOptions{})
		var ids []string
		for _, hit := range found.Hits {
			ids = append(ids, hit.ID)
		}
		slices.Sort(ids)
		if diff := cmp.Diff([]string{"name:t" + query, "page:t" + query}, ids); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

func TestABlankQueryGivesTheFirstTools(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	for i := range 30 {
		register(t, c, "p", tool(fmt.Sprintf("a:t%02d", i)), tool(fmt.Sprintf("b:t%02d", i), func(t *toolroom.Tool) { t.Hidden = i == 0 }))
	}
	for _, query := range []string{"", " ", "\n\t"} {
		found := c.Search(query, SearchOptions{Limit: 2, Namespace: "b", View: View{Visible: func(e *Entry) bool { return e.ID != "b:t01" }}})
		if len(found.Hits) != 2 || found.Hits[0].ID != "b:t02" || found.Hits[0].Call == "" || found.Hint != "" {
			t.Errorf("%q: %+v", query, found)
		}
		if n := len(c.Search(query, SearchOptions{}).Hits); n != defaultHits {
			t.Errorf("%q: %d hits, want %d", query, n, defaultHits)
		}
	}
}

func TestAnAuthorIsToldOfASchemaThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{"$ref": "https://example.com/a.json"}`, `{"$schema": "http://json-schema.org/draft-03/schema#"}`, `{"type": "objekt"}`, `{"type":`, `[]`,
		`{"type": "string"}`, `{"type": ["string", "null"]}`, `{"enum": [1, "a"]}`, `{"const": 1}`, `false`,
		`{"$ref": "#/$defs/a", "$defs": {"a": {"type": "array"}}}`, `{"anyOf": [{"type": "string"}, {"type": "null"}]}`, `{"allOf": [{"type": "object"}, {"type": "string"}]}`,
	} {
		c := New(Options{})
		bad := tool("a:x")
		bad.InputSchema = json.RawMessage(schema)
		if err := c.Add("go", nil, bad); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments || !strings.Contains(err.Error(), "input schema") {
			t.Errorf("%s: %v", schema, err)
		}
		// One from outside is there, and what is wrong is said.
		if err := c.SetProvider("mcp", nil, []toolroom.Tool{bad}); err != nil {
			t.Fatal(err)
		}
		e, err := c.Resolve("a:x", nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := c.Describe(t.Context(), e, "", ""); err != nil || !strings.Contains(d.Problem, "input schema") {
			t.Errorf("%s: %+v, %v", schema, d, err)
		}
	}
	for _, schema := range []string{
		`{}`, `true`, `{"type": "object", "required": ["a"]}`, `{"type": ["object", "null"]}`, `{"anyOf": [{"type": "string"}, {"required": ["a"]}]}`,
		`{"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"b": {"$ref": "#"}}}}}`, `{"enum": [{"a": 1}, 2]}`,
	} {
		good := tool("a:x")
		good.InputSchema, good.OutputSchema = json.RawMessage(schema), json.RawMessage(`{"type": "string"}`)
		if err := New(Options{}).Add("go", nil, good); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
	bad := tool("a:x")
	bad.OutputSchema = json.RawMessage(`{"type": "objekt"}`)
	if err := New(Options{}).Add("go", nil, bad); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments || !strings.Contains(err.Error(), "output schema") {
		t.Errorf("the output schema: %v", err)
	}
}
