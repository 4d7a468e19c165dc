package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/source"
)

func skill(name string) source.Skill { return source.Skill{URI: "skill://" + name + "/SKILL.md"} }

func TestSkillsOfTwoSourcesWithOneURIAreBothFoundAndTheirFilesToo(t *testing.T) {
	t.Parallel()
	var l Library
	l.Set("a", Offer{Skills: []source.Skill{skill("acme/refunds")}})
	l.Set("b", Offer{Skills: []source.Skill{skill("acme/refunds"), skill("100%")}})
	l.Set("c", Offer{})
	type found struct{ Shown, Provider, Own string }
	var got []found
	for _, s := range l.Skills(everybody) {
		providers, own := l.SkillProviders(s.Shown, everybody)
		if len(providers) != 1 || providers[0] != s.Provider {
			t.Errorf("%s leads to %q", s.Shown, providers)
		}
		got = append(got, found{s.Shown, s.Provider, own})
		file := s.URI[:len(s.URI)-len("SKILL.md")] + "guides/a%20b.md"
		if provider, own, ok := l.FindResource(s.ShownFile(file), everybody); !ok || provider != s.Provider || own != file {
			t.Errorf("%s leads to %s of %s", s.ShownFile(file), own, provider)
		}
	}
	want := []found{
		{"skill://acme/refunds/SKILL.md", "a", "skill://acme/refunds/SKILL.md"},
		{"toolroom://sources/b/skill://acme/refunds/SKILL.md", "b", "skill://acme/refunds/SKILL.md"},
		{"skill://100%/SKILL.md", "b", "skill://100%/SKILL.md"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if _, _, ok := l.FindResource("skill://unlisted/x.md", everybody); ok {
		t.Error("a file that either of two sources may have was given to one")
	}
	onlyB := func(provider string) bool { return provider == "b" }
	if providers, _ := l.SkillProviders("skill://unlisted/SKILL.md", everybody); len(providers) != 2 {
		t.Errorf("an unlisted skill is looked for at %q", providers)
	}
	if provider, _, ok := l.FindResource("skill://unlisted/x.md", onlyB); !ok || provider != "b" {
		t.Errorf("a file of an unlisted skill is looked for at %q", provider)
	}
	if got := l.Skills(onlyB); len(got) != 2 || !got[0].Scoped() {
		t.Errorf("b alone shows %+v", got)
	}
}
