package function

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAConstantIsReplacedOnlyWhereItIsOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ language, code, literal, want string }{
		{"python", `f("sku-2", 2, [2,2], x2, 2.5) # 2`, `2`, `f("sku-2", least, [least,least], x2, 2.5) # 2`},
		{"python", "a = '''\n2'''\nb = f\"{2}\" + 'it\\'s 2'\nc = 2", `2`, "a = '''\n2'''\nb = f\"{2}\" + 'it\\'s 2'\nc = least"},
		{"python", `f("books", 'books', "my 'books'", r"books", """books""")`, `"books"`, `f(least, least, "my 'books'", r"books", """books""")`},
		{"python", `f([1, 2], x[1, 2], -5)`, `[1, 2]`, `f(least, x[1, 2], -5)`},
		{"python", `f(-5, "-5")`, `-5`, `f(least, "-5")`},
		{"python", `f("größe", 2)`, `2`, `f("größe", least)`},
		{"typescript", "f(\"sku-2\", 'a 2', `x ${`2`} 2`, 2, /2\"/, 2) // 2\n/* 2 */", `2`, "f(\"sku-2\", 'a 2', `x ${`2`} 2`, least, /2\"/, least) // 2\n/* 2 */"},
		{"typescript", "f(`books`, {\"books\": \"books\"}, a ? \"books\" : 'x', 6 / 2)", `"books"`, "f(least, {[least]: least}, a ? least : 'x', 6 / 2)"},
		{"python", "f(\n    least=2,\n)\nx.least = [2]", `2`, "    least=least,\nx.least = [least]"},
		{"python", "least = 2\nf(least, 2)", `2`, "least = least\nf(least, least)"},
		{"python", `f('a\nb', "a\nb")`, `"a\nb"`, `f('a\nb', least)`},
		{"typescript", "f({least: 2})", `2`, "f({least: least})"},
		{"typescript", "f(`a ${x}`, \"a ${x}\")", `"a ${x}"`, "f(`a ${x}`, least)"},
		{"typescript", `f({"get"() {}}, "get")`, `"get"`, `f({"get"() {}}, least)`},
		{"typescript", "f(x\n-1, -1)", `-1`, "f(x\n-1, least)"},
		{"typescript", "const least: number = 2;\nreturn 6 / least / 2", `2`, "return 6 / least / least"},
	} {
		r := &ProgramRun{Name: "f1", Language: c.language, Code: c.code, Literals: map[string]json.RawMessage{"least": json.RawMessage(c.literal)}}
		_, text, _, err := r.File()
		if err != nil {
			t.Errorf("%s: %v", c.code, err)
			continue
		}
		for _, line := range strings.Split(c.want, "\n") {
			if !strings.Contains(text, line) {
				t.Errorf("%s\nbecame\n%s\nwithout\n%s", c.code, text, line)
			}
		}
		if strings.Contains(text, "const least") {
			t.Errorf("the parameter is declared again:\n%s", text)
		}
	}
}

func TestAParameterDoesNotMeetAVariable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ language, code string }{
		{"python", "least = 10\nf(5)"},
		{"python", "least = 5\nfor x in y:\n    least += 1\nf(5)"},
		{"python", "for least in y:\n    f(5)"},
		{"python", "if a:\n    least = 5\nf(5)"},
		{"typescript", "{ const least = 10; f(5) }"},
		{"typescript", "const least = 5; least++; f(5)"},
		{"typescript", "y.map(least => f(5))"},
		{"typescript", "let least = 10\nf(5)"},
	} {
		r := &ProgramRun{Name: "f1", Language: c.language, Code: c.code, Literals: map[string]json.RawMessage{"least": json.RawMessage("5")}}
		if _, text, _, err := r.File(); err == nil || !strings.Contains(err.Error(), "a variable least") {
			t.Errorf("%s\nbecame\n%s\n%v", c.code, text, err)
		}
	}
}
