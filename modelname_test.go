package toolroom

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var modelNameForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func TestModelNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		id   ID
		want string // "" for a hashed name
	}{
		{ID{"github", "create_issue", ""}, "github__create_issue"},
		{ID{"math", "add", "3"}, "math__add"},
		{ID{"file-system", "read", ""}, "file-system__read"},
		{ID{"web", "search.news", ""}, "web__search__news"},
		{ID{"docker", "container.image.ls", ""}, "docker__container__image__ls"},
		{ID{"a", "b_.c", ""}, ""},
		{ID{"a", "b._c", ""}, ""},
		{ID{"a_", "b", ""}, ""},
		{ID{"a", "_b", ""}, ""},
		{ID{"a__b", "c", ""}, ""},
		{ID{"a", "b__c", ""}, ""},
		{ID{strings.Repeat("n", 31), strings.Repeat("m", 31), ""}, strings.Repeat("n", 31) + "__" + strings.Repeat("m", 31)},
		{ID{strings.Repeat("n", 32), strings.Repeat("m", 31), ""}, ""},
	} {
		t.Run(tt.id.String(), func(t *testing.T) {
			t.Parallel()
			got := ModelName(tt.id)
			if tt.want != "" && got != tt.want || tt.want == "" && !IsHashedModelName(got) {
				t.Errorf("ModelName = %q, want %q (empty: hashed)", got, tt.want)
			}
		})
	}
}

// The hash is a promise to models that remember a name: it must not change
// between releases.
func TestAHashedModelNameNeverChanges(t *testing.T) {
	t.Parallel()
	if got, want := ModelName(ID{Namespace: "a", Name: "b__c"}), "a__b__c_hguab4egivu"; got != want {
		t.Errorf("ModelName = %q, want %q", got, want)
	}
}

func TestModelNamesAreInjectiveShortAndExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ID { return drawID(t, "id") }), 1, 40).Draw(t, "ids")
		holder := map[string]ID{}
		for _, id := range ids {
			name := ModelName(id)
			if !modelNameForm.MatchString(name) {
				t.Fatalf("ModelName(%v) = %q has another form", id, name)
			}
			if other, taken := holder[name]; taken && other != id {
				t.Fatalf("%v and %v share the name %q", id, other, name)
			}
			holder[name] = id
			back, exact := ReadModelName(name)
			if exact == IsHashedModelName(name) {
				t.Fatalf("%q is exact: %v, and hashed: %v", name, exact, !exact)
			}
			if exact && back != id {
				t.Fatalf("%q reads back as %v, want %v", name, back, id)
			}
			versioned := id
			versioned.Version = "9"
			if ModelName(versioned) != name {
				t.Fatalf("the version changes the name of %v", id)
			}
		}
		// No other tool moves a name: in reverse order all are the same.
		for i := len(ids) - 1; i >= 0; i-- {
			if name := ModelName(ids[i]); holder[name] != ids[i] {
				t.Fatalf("the name of %v moved to %q", ids[i], name)
			}
		}
	})
}

func TestReadModelNameReadsNothingElse(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "read", "__", "a__", "__b", "a____b", "a__b__", "a__b___c", "a___b", "a.b__c", "a b__c",
		strings.Repeat("n", 60) + "__bcd", ModelName(ID{Namespace: "a", Name: "b__c"}),
	} {
		if id, ok := ReadModelName(name); ok {
			t.Errorf("ReadModelName(%q) = %v", name, id)
		}
	}
}

func FuzzReadModelName(f *testing.F) {
	f.Add("github__create_issue")
	f.Add("a___b")
	f.Add("web__search__news")
	f.Add("web__search_news_habcdefghij")
	f.Fuzz(func(t *testing.T, name string) {
		if id, ok := ReadModelName(name); ok && ModelName(id) != name {
			t.Fatalf("%q reads as %v, whose name is %q", name, id, ModelName(id))
		}
	})
}
