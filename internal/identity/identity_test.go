package identity_test

import (
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
)

func TestOwnersDifferUnlessTheyMayDoTheSame(t *testing.T) {
	t.Parallel()
	owners := map[string]toolroom.Identity{}
	for _, who := range []toolroom.Identity{
		{},
		{Subject: "ann"},
		{Subject: "ann", Agent: "a"},
		{Subject: "ann", Provider: "a"},
		{Subject: "ann", Skill: "a"},
		{Subject: "ann", Set: "a"},
		{Subject: "ann", Groups: []string{"a"}},
		{Subject: "ann", Groups: []string{"a", "b"}},
		{Subject: "ann", Groups: []string{"a,b"}},
		{Subject: "ann", Scopes: []string{}},
		{Subject: "ann", Scopes: []string{"a"}},
	} {
		owner := identity.Owner(who)
		if other, ok := owners[owner]; ok {
			t.Errorf("%+v and %+v have one owner %q", who, other, owner)
		}
		owners[owner] = who
	}
	groups := []string{"b", "a", "b"}
	if identity.Owner(toolroom.Identity{Groups: groups}) != identity.Owner(toolroom.Identity{Subject: "local", Groups: []string{"a", "b"}}) || groups[0] != "b" {
		t.Errorf("the order of groups matters, or was changed: %v", groups)
	}
}

func TestOnlyTheWiderReachesTheNarrower(t *testing.T) {
	t.Parallel()
	wide := toolroom.Identity{Subject: "ann", Groups: []string{"dev", "ops"}}
	narrower := map[string]func(*toolroom.Identity){
		"agent":    func(i *toolroom.Identity) { i.Agent = "a" },
		"provider": func(i *toolroom.Identity) { i.Provider = "p" },
		"skill":    func(i *toolroom.Identity) { i.Skill = "s" },
		"set":      func(i *toolroom.Identity) { i.Set = "s" },
		"groups":   func(i *toolroom.Identity) { i.Groups = []string{"ops"} },
		"scopes":   func(i *toolroom.Identity) { i.Scopes = []string{} },
	}
	for name, narrow := range narrower {
		who := wide
		narrow(&who)
		if !identity.Reaches(wide, who) || !identity.Reaches(who, who) || identity.Reaches(who, wide) {
			t.Errorf("%s: %v %v %v", name, identity.Reaches(wide, who), identity.Reaches(who, who), identity.Reaches(who, wide))
		}
	}
	if bob := (toolroom.Identity{Subject: "bob", Groups: wide.Groups}); identity.Reaches(bob, wide) || identity.Reaches(toolroom.Identity{}, wide) {
		t.Error("another subject reaches it")
	}
}

func TestOwnerNamesReachWhatTheirIdentitiesReach(t *testing.T) {
	t.Parallel()
	all := []toolroom.Identity{
		{},
		{Subject: "ann"},
		{Subject: "ann", Agent: "a"},
		{Subject: "ann", Agent: "a", Skill: "s"},
		{Subject: "ann", Groups: []string{"b", "a"}},
		{Subject: "ann", Scopes: []string{}},
		{Subject: "ann", Scopes: []string{"x"}},
		{Subject: "bob"},
		{Subject: "ann\n{\"agent\":\"a\"}"},
		{Subject: "ann\n*"},
	}
	for _, caller := range all {
		name := identity.Owner(caller)
		if who, err := identity.Parse(name); err != nil || identity.Owner(who) != name || identity.Subject(name) != caller.Key() {
			t.Errorf("%q is that of %+v, of the subject %q, %v", name, who, identity.Subject(name), err)
		}
		for _, maker := range all {
			if got, want := identity.OwnerReaches(name, identity.Owner(maker)), identity.Reaches(caller, maker); got != want {
				t.Errorf("%+v reaches %+v: %v, want %v", caller, maker, got, want)
			}
			if got, want := identity.OwnerReaches(identity.All("ann"), identity.Owner(maker)), maker.Subject == "ann"; got != want {
				t.Errorf("All(ann) reaches %+v: %v", maker, got)
			}
		}
	}
	if identity.OwnerReaches("ann", "ann\n{broken") || identity.OwnerReaches("ann\n{broken", "ann") {
		t.Error("a name that is none is reached, or reaches")
	}
}
