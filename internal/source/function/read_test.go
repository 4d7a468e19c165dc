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
		ran := function.Ran{Name: "f", Language: "python", Code: code}
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
			ran := function.Ran{Name: "f", Language: language, Code: code}
			_, text, _, err := ran.File()
			if err == nil && !strings.Contains(text, "f(") {
				t.Errorf("%q", text)
			}
			ran.Literals = map[string]json.RawMessage{"p": json.RawMessage(literal)}
			_, _, _, _ = ran.File()
		}
	})
}
