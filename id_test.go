package toolroom

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const idRunes = "ABYZabyz0189_.-"

// drawID draws ids that often have dots and underscores at awkward places.
func drawID(t *rapid.T, label string) ID {
	part := rapid.Custom(func(t *rapid.T) string {
		return rapid.StringOfN(rapid.RuneFrom([]rune(idRunes)), 1, rapid.SampledFrom([]int{3, 12, MaxIDPart}).Draw(t, "longest"), -1).Filter(func(s string) bool { return s != "." && s != ".." }).Draw(t, "text")
	})
	return ID{Namespace: part.Draw(t, label+" namespace"), Name: part.Draw(t, label+" name")}
}

func TestSpellingsReadsEveryDocumentedForm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		spelling string
		want     []ID
	}{
		{"github:create_issue", []ID{{"github", "create_issue", ""}}},
		{"math:add@3", []ID{{"math", "add", "3"}}},
		{"file.read", []ID{{"file", "read", ""}, {"", "file.read", ""}}},
		{"file.read@2", []ID{{"file", "read", "2"}, {"", "file.read", "2"}}},
		{"file__read", []ID{{"file", "read", ""}, {"", "file__read", ""}}},
		{"mcp:server:tool", []ID{{"server", "tool", ""}}},
		{"mcp:server/tool", []ID{{"server", "tool", ""}}},
		{"mcp:server:tool@1", []ID{{"server", "tool", "1"}}},
		{"mcp:tool", []ID{{"mcp", "tool", ""}}},
		{"read", []ID{{"", "read", ""}}},
		{"read@7", []ID{{"", "read", "7"}}},
		{"web.search.news", []ID{{"web", "search.news", ""}, {"web.search", "news", ""}, {"", "web.search.news", ""}}},
		{"a___b", []ID{{"a", "_b", ""}, {"a_", "b", ""}, {"", "a___b", ""}}},
		{".hidden", []ID{{"", ".hidden", ""}}},
		{"end.", []ID{{"", "end.", ""}}},
	} {
		t.Run(tt.spelling, func(t *testing.T) {
			t.Parallel()
			got, err := Spellings(tt.spelling)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// badIDs are refused by ParseID and Spellings alike.
var badIDs = map[string]string{
	"empty":               "",
	"a folder above":      "..:..",
	"this folder":         "a:.",
	"only a colon":        ":",
	"no namespace":        ":read",
	"no name":             "file:",
	"empty version":       "file:read@",
	"two versions":        "file:read@1@2",
	"space":               "file:read me",
	"newline":             "file:re\nad",
	"letter beyond ASCII": "file:läsa",
	"invalid UTF-8":       "file:\xff",
	"NUL":                 "file:\x00",
	"slash":               "file/read",
	"namespace too long":  strings.Repeat("n", MaxIDPart+1) + ":read",
	"name too long":       "file:" + strings.Repeat("n", MaxIDPart+1),
	"version too long":    "file:read@" + strings.Repeat("1", MaxIDPart+1),
	"bare name too long":  strings.Repeat("n", MaxIDPart+1),
	"a megabyte":          strings.Repeat("n", 1<<20),
	"a megabyte of dots":  strings.Repeat("a.", 1<<19),
	"mcp without tool":    "mcp:server:",
	"mcp without server":  "mcp::tool",
	"mcp with two colons": "mcp:a:b:c",
}

func TestWhatIsNoIDIsRefusedWithANextStep(t *testing.T) {
	t.Parallel()
	for name, bad := range badIDs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, parseErr := ParseID(bad)
			_, spellingErr := Spellings(bad)
			for _, err := range []error{parseErr, spellingErr} {
				if CodeOf(err) != CodeInvalidID {
					t.Fatalf("code %q, want invalid_id: %v", CodeOf(err), err)
				}
				e := AsError(err)
				if e.Hint == "" || e.Phase != PhaseResolve {
					t.Errorf("no next step or phase: %+v", e)
				}
				if len(e.Message) > 2000 {
					t.Errorf("the message has %d bytes", len(e.Message))
				}
			}
		})
	}
}

func TestParseIDTakesTheCanonicalFormOnly(t *testing.T) {
	t.Parallel()
	for _, spelling := range []string{"file.read", "file__read", "mcp:server:tool", "mcp:server/tool", "read"} {
		if id, err := ParseID(spelling); err == nil {
			t.Errorf("ParseID(%q) = %v, want an error", spelling, id)
		}
	}
	longest := strings.Repeat("n", MaxIDPart)
	if _, err := ParseID(longest + ":" + longest + "@" + longest); err != nil {
		t.Errorf("the longest id: %v", err)
	}
}

func TestAnIDSurvivesTextAndJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := drawID(t, "id")
		id.Version = Version(rapid.StringMatching(`([a-z0-9_.-]{1,8})?`).Draw(t, "version"))
		if back, err := ParseID(id.String()); err != nil || back != id {
			t.Fatalf("ParseID(%q) = %v, %v", id, back, err)
		}
		text, err := json.Marshal(map[ID]ID{id: id})
		if err != nil {
			t.Fatal(err)
		}
		var back map[ID]ID
		if err := json.Unmarshal(text, &back); err != nil || back[id] != id {
			t.Fatalf("%s came back as %v, %v", text, back, err)
		}
	})
}

func TestTheCanonicalReadingOfEveryFormIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := drawID(t, "id")
		for _, spelling := range []string{
			id.String(),
			id.Namespace + "." + id.Name,
			id.Namespace + "__" + id.Name,
			"mcp:" + id.String(),
			"mcp:" + id.Namespace + "/" + id.Name,
		} {
			readings, err := Spellings(spelling)
			if err != nil {
				t.Fatalf("Spellings(%q): %v", spelling, err)
			}
			found := false
			for _, r := range readings {
				found = found || r == id
			}
			if !found {
				t.Fatalf("Spellings(%q) = %v lacks %v", spelling, readings, id)
			}
		}
	})
}

func TestValidateGuardsIDsPutTogetherByHand(t *testing.T) {
	t.Parallel()
	for _, id := range []ID{{}, {Namespace: "a"}, {Name: "b"}, {"a:b", "c", ""}, {"a", "b", "x y"}, {"a", "b@1", ""}} {
		if CodeOf(id.Validate()) != CodeInvalidID {
			t.Errorf("%#v is accepted", id)
		}
	}
	if !(ID{}).IsZero() || (ID{Name: "x"}).IsZero() {
		t.Error("IsZero is not about the zero ID")
	}
}

func TestMustParseIDPanicsOnAMistake(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	MustParseID("no namespace")
}

func FuzzParseID(f *testing.F) {
	for _, bad := range badIDs {
		f.Add(bad)
	}
	f.Add("math:add@3")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err != nil {
			if CodeOf(err) != CodeInvalidID {
				t.Fatalf("code %q", CodeOf(err))
			}
			return
		}
		if id.String() != s || id.Validate() != nil {
			t.Fatalf("%q became %q", s, id)
		}
	})
}

func FuzzSpellings(f *testing.F) {
	for _, s := range []string{"file:read", "file.read", "file__read", "mcp:a:b", "mcp:a/b", "read", "a.b.c__d@1", "....", "____"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		readings, err := Spellings(s)
		if err != nil {
			if CodeOf(err) != CodeInvalidID {
				t.Fatalf("code %q", CodeOf(err))
			}
			return
		}
		if len(readings) == 0 {
			t.Fatalf("%q is valid and means nothing", s)
		}
		seen := map[ID]bool{}
		for _, id := range readings {
			if seen[id] {
				t.Fatalf("%q means %v twice", s, id)
			}
			seen[id] = true
			if id.Namespace == "" {
				id.Namespace = "any"
			}
			if err := id.Validate(); err != nil {
				t.Fatalf("%q means %#v: %v", s, id, err)
			}
		}
		if id, err := ParseID(s); err == nil && readings[0] != id && !strings.HasPrefix(s, "mcp:") {
			t.Fatalf("the canonical reading of %q is not first: %v", s, readings)
		}
	})
}
