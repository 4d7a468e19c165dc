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
		{"typescript", "const least: number = 2;\nreturn 6 / least / 2", `2`, "return 6 / least / least"},
	} {
		r := &Ran{Name: "f1", Language: c.language, Code: c.code, Literals: map[string]json.RawMessage{"least": json.RawMessage(c.literal)}}
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
