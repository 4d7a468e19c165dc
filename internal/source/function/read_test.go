package function_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/source/function"
)

func TestDependenciesComeFromHeaderRequirementsAndProject(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"a.py":             "# /// script\n# dependencies = [\"one\"]\n# ///\ndef a(): pass\n",
		"requirements.txt": "# comment\ntwo>=2 # why\n",
		"pyproject.toml":   "[build-system]\nrequires = [\"no\"]\n[project]\nname = \"x\"\ndependencies = [\"three[fast]>=3\"]\n[project.optional-dependencies]\ntest = [\"no\"]\n",
	}
	c, err := function.Read(files, "a.py")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"one", "two>=2", "three[fast]>=3"}; !slices.Equal(c.Manifest.Dependencies, want) {
		t.Errorf("dependencies %q, want %q", c.Manifest.Dependencies, want)
	}
	for text, want := range map[string]string{"[project\n": "pyproject.toml:", "[project]\ndynamic = [\"dependencies\"]\n": "dynamic"} {
		files["pyproject.toml"] = text
		if _, err := function.Read(files, "a.py"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTheLastExpressionOfAProgramIsReturned(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"a = 1\na":                        "    a = 1\n    return a\n",
		"dict(\n  a=1,\n)":                "    return dict(\n      a=1,\n    )\n",
		"a == b":                          "    return a == b\n",
		"a.b[0]: int = 3":                 "    a.b[0]: int = 3\n",
		"a += 1":                          "    a += 1\n",
		"for x in y:\n  f(x)":             "    for x in y:\n      f(x)\n",
		"t = \"\"\"x\ny\"\"\"\nf(t) # it": "    t = \"\"\"x\ny\"\"\"\n    return f(t) # it\n",
	} {
		ran := function.ProgramRun{Name: "f", Language: "python", Code: code}
		_, text, _, err := ran.File()
		if err != nil || !strings.HasSuffix(text, "\n"+want) {
			t.Errorf("%q becomes\n%s, %v", code, text, err)
		}
	}
}

// FuzzRan makes functions of any program.
func FuzzRan(f *testing.F) {
	f.Add("x = \"\"\"a\n b\"\"\"\nx", "1")
	f.Add("0", "\xb1") // no JSON
	f.Add("for i in range(3):\n    print('a')\n", "\"a\"")
	f.Fuzz(func(t *testing.T, code, literal string) {
		for _, language := range []string{"python", "javascript"} {
			ran := function.ProgramRun{Name: "f", Language: language, Code: code}
			_, text, _, err := ran.File()
			if err == nil && !strings.Contains(text, "f(") {
				t.Errorf("%q", text)
			}
			ran.Literals = map[string]json.RawMessage{"p": json.RawMessage(literal)}
			_, _, _, _ = ran.File()
		}
	})
}

func TestAHeaderIsReadInAnyCommentAndNeverIgnored(t *testing.T) {
	t.Parallel()
	for _, header := range []string{
		"// toolroom:\n//   tags: [a, b]\n",
		"//toolroom:\n//  tags: [a, b]\n",
		"/*\n * toolroom:\n *   tags: [a, b]\n */\n",
		"/**\n * toolroom:\n *   tags:\n *     - a\n *     - b\n *\n * more: text\n */\n",
		"/* toolroom:\n *   tags: [a, b]\n */\n",
		"/* toolroom:\n * tags: [a, b]\n */\n",
		"/* toolroom:\n  tags: [a, b] */\n",
		"/*\ntoolroom:\n  tags: [a, b]\n*/\n",
		"/*\n  toolroom:\n    tags:\n    - a\n    - b\n*/\n",
		"\t// toolroom:\r\n\t//   tags: [a, b]\r\n",
		"// toolroom: {tags: [a, b]}\n",
		"\ufeff// toolroom: {tags: [a, b]}\n",
		"/* toolroom: {tags: [a, b]} */\n",
	} {
		c, err := function.Read(map[string]string{"a.js": header + "export function a() {}\n"}, "a.js")
		if err != nil || !slices.Equal(c.Manifest.Tags, []string{"a", "b"}) {
			t.Errorf("%q has the tags %q: %v", header, c.Manifest.Tags, err)
		}
	}
	for _, header := range []string{
		"# /// script\n# [tool.toolroom]\n# tags = [\"a\", \"b\"]\n# ///\n",
		"# /// script\r\n# [tool.toolroom]\r\n# tags = [\"a\", \"b\"]\r\n# ///\r\n",
		"\ufeff# /// script\n# [tool.toolroom]\n# tags = [\"a\", \"b\"]\n# ///\n",
	} {
		c, err := function.Read(map[string]string{"a.py": header + "def a(): pass\n"}, "a.py")
		if err != nil || !slices.Equal(c.Manifest.Tags, []string{"a", "b"}) {
			t.Errorf("%q has the tags %q: %v", header, c.Manifest.Tags, err)
		}
	}
	for header, want := range map[string]string{
		"// toolroom:\n// tags: [a, b]\n":               "a.js:1:1: the header has no keys",
		"/*\n * toolroom:\n */\n":                       "a.js:2:1: the header has no keys",
		"\n// toolroom:\n//   tags: [a]\n//   tag: b\n": "a.js:4:1: the header cannot be read",
		"// toolroom: {tag: b}\n":                       "a.js:1:1: the header cannot be read",
	} {
		_, err := function.Read(map[string]string{"a.js": header + "export function a() {}\n"}, "a.js")
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", header, err, want)
		}
	}
	for _, header := range []string{"# toolroom:\n#   tags: [a]\n", "#///script\n# [tool.toolroom]\n# tags = [\"a\"]\n# ///\n", "# /// Script\n# ///\n"} {
		_, err := function.Read(map[string]string{"a.py": "\n" + header + "def a(): pass\n"}, "a.py")
		if err == nil || !strings.HasPrefix(err.Error(), "a.py:2:1: the header cannot be read") {
			t.Errorf("%q: %v", header, err)
		}
	}
	c, err := function.Read(map[string]string{"a.js": "// toolroom: see its docs\nexport function a() {}\n"}, "a.js")
	if err != nil || c.Manifest.Tags != nil {
		t.Errorf("prose: %v, %v", c, err)
	}
}

func TestADefaultOfNullFitsATypeWithNull(t *testing.T) {
	t.Parallel()
	for text, fits := range map[string]bool{
		`{"properties": {"x": {"type": ["integer", "null"], "default": null}}}`:                                                           true,
		`{"properties": {"x": {"type": "integer", "default": null}}}`:                                                                     false,
		`{"properties": {"x": {"$ref": "#/$defs/A", "default": [1]}}, "$defs": {"A": {"type": "array", "items": {"type": "integer"}}}}`:   true,
		`{"properties": {"x": {"$ref": "#/$defs/A", "default": ["1"]}}, "$defs": {"A": {"type": "array", "items": {"type": "integer"}}}}`: false,
		`{"properties": {"x": true}}`: true,
	} {
		one := function.Inspected{Entry: "f", Line: 1, Input: json.RawMessage(text)}
		if err := one.CheckSchemas("a.py"); (err == nil) != fits {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A date in YAML or TOML is the text that is written, as in JSON.
func TestDatesOfManifestsStayTexts(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"tool.yaml": {"a.py": "def a(): pass\n", "tool.yaml": "file: a.py\nconfig: {since: 2026-01-31}\ncases: [{tool: a, name: x, arguments: {day: 2026-01-31, at: 2026-01-31T10:00:00Z}, expect: 2026-01-31}]\n"},
		"a header":  {"a.js": "// toolroom:\n//   config: {since: 2026-01-31}\n//   cases: [{tool: a, name: x, arguments: {day: 2026-01-31, at: 2026-01-31T10:00:00Z}, expect: 2026-01-31}]\nexport function a() {}\n"},
	} {
		file := "a.py"
		if name != "tool.yaml" {
			file = "a.js"
		}
		c, err := function.Read(files, file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := json.Marshal([]any{c.Manifest.Config, c.Manifest.Cases[0].Arguments, c.Manifest.Cases[0].Expect})
		if want := `[{"since":"2026-01-31"},{"at":"2026-01-31T10:00:00Z","day":"2026-01-31"},"2026-01-31"]`; err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
}

func TestDatesOfAPythonHeaderStayTexts(t *testing.T) {
	t.Parallel()
	header := `# /// script
# [tool.toolroom.config]
# day = 2026-01-02
# list = [2026-01-02, {time = 10:20:30.5}]
# [[tool.toolroom.config.tables]]
# at = 2026-01-02T10:20:30
# zone = 2026-01-02 10:20:30+02:00
# [[tool.toolroom.cases]]
# tool = "a"
# name = "x"
# expect = 2026-01-02
# arguments = {day = 2026-01-02}
# ///
def a(): pass
`
	c, err := function.Read(map[string]string{"a.py": header}, "a.py")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal([]any{c.Manifest.Config, c.Manifest.Cases[0].Arguments, c.Manifest.Cases[0].Expect})
	want := `[{"day":"2026-01-02","list":["2026-01-02",{"time":"10:20:30.5"}],"tables":[{"at":"2026-01-02T10:20:30","zone":"2026-01-02T10:20:30+02:00"}]},{"day":"2026-01-02"},"2026-01-02"]`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
