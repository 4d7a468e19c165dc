package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/source"
)

func everybody(string) bool { return true }

func resource(uri string) source.Resource { return source.Resource{URI: uri, Name: uri} }

func TestTwoSourcesMayHaveTheSameURIAndBothAreRead(t *testing.T) {
	t.Parallel()
	var l Library
	l.Set("a", Offer{Resources: []source.Resource{resource("file:///x"), resource("file:///y")}})
	l.Set("b", Offer{Resources: []source.Resource{resource("file:///x")}})
	var shown []string
	for _, r := range l.Resources(everybody) {
		shown = append(shown, r.Shown)
		provider, own, ok := l.FindResource(r.Shown, everybody)
		if !ok || provider != r.Provider || own != r.URI {
			t.Errorf("%s leads to %s %s, not to %s %s", r.Shown, provider, own, r.Provider, r.URI)
		}
	}
	want := []string{"file:///x", "file:///y", "toolroom://sources/b/file:%2F%2F%2Fx"}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	// Who may not see a takes b's resource under the same URI as everybody.
	onlyB := func(provider string) bool { return provider == "b" }
	if got := l.Resources(onlyB); len(got) != 1 || got[0].Shown != want[2] {
		t.Errorf("b alone shows %+v", got)
	}
	if _, _, ok := l.FindResource("toolroom://sources/a/file:%2F%2F%2Fx", onlyB); ok {
		t.Error("a resource of a hidden source was found")
	}
}

func TestTemplatesMatch(t *testing.T) {
	t.Parallel()
	var l Library
	l.Set("a", Offer{Templates: []source.Template{{URITemplate: "test://item/{id}/data"}, {URITemplate: "{broken"}}})
	for uri, want := range map[string]bool{
		"test://item/5/data": true, "test://item/5": false, "test://item/5/6/data": false, "{broken": false, "other": false,
	} {
		if _, _, ok := l.FindResource(uri, everybody); ok != want {
			t.Errorf("%s: %v", uri, ok)
		}
	}
}

func TestPromptsHaveBareNamesOnlyWhileTheyAreUnique(t *testing.T) {
	t.Parallel()
	var l Library
	l.Set("a", Offer{Plain: true, Prompts: []source.Prompt{{Name: "greet"}, {Name: "part"}}})
	names := func() (names []string) {
		for _, p := range l.Prompts(everybody) {
			names = append(names, p.Shown)
		}
		return names
	}
	if diff := cmp.Diff([]string{"greet", "part"}, names()); diff != "" {
		t.Error(diff)
	}
	l.Set("b", Offer{Plain: true, Prompts: []source.Prompt{{Name: "greet"}}})
	if diff := cmp.Diff([]string{"a__greet", "part", "b__greet"}, names()); diff != "" {
		t.Error(diff)
	}
	if p, ok := l.FindPrompt("b__greet", everybody); !ok || p.Provider != "b" {
		t.Errorf("found %+v", p)
	}
	if _, ok := l.FindPrompt("greet", everybody); ok {
		t.Error("an ambiguous name was found")
	}
}

func TestWatchersHearOfWhatHasChangedAndNothingElse(t *testing.T) {
	t.Parallel()
	var l Library
	var heard []Change
	cancel := l.Changes.Add(func(c Change) { heard = append(heard, c) })
	l.Set("a", Offer{Resources: []source.Resource{resource("x:1")}})
	l.Set("a", Offer{Resources: []source.Resource{resource("x:1")}})
	l.Set("a", Offer{Resources: []source.Resource{resource("x:1")}, Prompts: []source.Prompt{{Name: "p"}}})
	l.Remove("a")
	cancel()
	l.Set("a", Offer{Prompts: []source.Prompt{{Name: "p"}}})
	want := []Change{{Resources: true}, {Prompts: true}, {Resources: true, Prompts: true}}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
