package js_test

import (
	"strings"
	"testing"
	"time"
)

// deep lists texts that take a parser deep: the repeated part, the middle, and the
// closing part.
var deep = [][3]string{
	{"("},
	{"["},
	{"{"},
	{"`${"},
	{"({a:"},
	{"(", "1", ")"},
	{"[", "", "]"},
	{"{", "", "}"},
	{"`${", "1", "}`"},
	{"(]"},
	{"{)"},
	{"f(", "", ")"},
	{"a[", "0", "]"},
	{"!", "1"},
	{"-", "1"},
	{"+ ", "1"},
	{"~", "1"},
	{"typeof ", "1"},
	{"void ", "1"},
	{"delete ", "1"},
	{"await ", "1"},
	{"new ", "a"},
	{"new\n", "a"},
	{"yield ", "1"},
	{"... "},
	{"a=>", "1"},
	{"a =>\n", "1"},
	{"()=>", "1"},
	{"async a=>", "1"},
	{"a=", "1"},
	{"a=\n", "1"},
	{"a?b:", "c"},
	{"a?", "b", ":c"},
	{"a**", "1"},
	{"a+", "1"},
	{"a,", "1"},
	{"a\n,", "1"},
	{"a&&", "1"},
	{"a??", "1"},
	{"a||b&&", "1"},
	{"a in ", "b"},
	{"a.", "b"},
	{"a\n.", "b"},
	{"a?.", "b"},
	{"a!", ""},
	{"a", "", "()"},
	{"a", "", "[0]"},
	{"a", "", "``"},
	{"a++ + ", "1"},
	{"if(a)", ";"},
	{"if(a)\n", ";"},
	{"if(a){}else ", ";"},
	{"if(a){}\nelse\n", ";"},
	{"while(a)", ";"},
	{"for(;;)", ";"},
	{"for(a of b)\n", ";"},
	{"with(a)", ";"},
	{"do ", ";", " while(a)"},
	{"do\n", ";", "\nwhile(a)"},
	{"a:", ";"},
	{"a:\n", ";"},
	{"try{", "", "}finally{}"},
	{"switch(a){case ", "1", ":}"},
	{"function f(){", "", "}"},
	{"class A{static{", "", "}}"},
	{"class extends ", "A", "{}"},
	{"(class extends ", "A", "{})"},
	{"(function(){", "", "})()"},
	{"(a=", "1", ")=>1"},
	{"(a=", "1", ")/**/=>1"},
	{"(a=", "1", ")\f=>1"},
	{"async(a=", "1", ")=>1"},
	{"({a=", "1", "})=>1"},
	{"([a=", "1", "])=>1"},
	{"(a=(b)=>", "1", ")=>1"},
	{"(a=function(){", "", "})=>1"},
	{"(a=`${", "1", "}`)=>1"},
	{"[a=", "1", "]=1"},
	{"({a:", "b", "}=1)"},
	{"x?(a=", "1", "):b=>1"},
	{"(", "a", ")=>(1)"},
	{"(a:T=", "1", "):T=>1"},
	{"<T>(a=", "1", ")=>1"},
	// Hidden from one who reads strings, comments and regular expressions wrongly.
	{"/\"/;(/\"/;", ""},
	{"a\f/(/1;", ""},
	{"1./(/1;", ""},
	{"[...await /\"/,(\"", ""},
	{"a++/(/1;"},
	{"}/\"/;("},
	{"(\")\""},
	{"(/*)*/"},
	{"(//)\n"},
	{"(//)\u2028"},
	{"(`)`"},
	{"(/)/"},
	{"(/[/)]/"},
	{"(/\\/)/"},
	{"('\\')'"},
	{"{x\n/\"/;(/\"/;"},
	{"<!--`\n("},
	{"return\u00a0/\"/;(/\"/;"},
	{"await (x)/(/1;"},
	{"(a)\n/\"/;(/\"/;"},
}

// deepTypes are the same for TypeScript.
var deepTypes = [][3]string{
	{"let a:[", "", "]"},
	{"let a:(", "b", ")"},
	{"let a:{b:", "c", "}"},
	{"let a: A<", "B", ">"},
	{"let a: A<B,", "C", ">"},
	{"A<B,"},
	{"let a:", "b"},
	{"let a: keyof ", "b"},
	{"keyof\n"},
	{"let a: A extends B ? ", "C", ":D"},
	{"A extends B ? C : ", "D"},
	{"A extends B\n? C : ", "D"},
	{"let a: ()=>", "b"},
	{"()=>", "void"},
	{"let a: new()=>", "b"},
	{"a as ", "b"},
	{"a as any as "},
	{"<T>", "a"},
	{"<a>(", "b", ")"},
	{"let a: b", "", "[]"},
	{"let a: `${", "b", "}`"},
	{"a|", "b"},
	{"let a: b|", "c"},
	{"infer "},
	{"readonly "},
	{"asserts a is "},
	{"typeof a<", "b", ">"},
	{"namespace a{", "", "}"},
	{"namespace a.", "b{}"},
	{"a."},
	{"@a ", "class A{}"},
	{"@(", "a", ") class A{}"},
	{"a satisfies ", "b"},
	{"f<a,(", "1", ")>(1)"},
	{"f<a", "", ">(1)"},
	{"a<b,(", "1", ")"},
	{"a<", "b"},
	{"enum A{b=", "1", "}"},
	{"declare "},
	{"abstract "},
	{"type A=", "b"},
	{"type A=\n", "b"},
	{"let x: unique ", "symbol"},
	{"(a:", "b", ")=>c"},
	{"let a: (b:", "c", ")=>d"},
	{"import a = "},
}

// Without the bounds most of these crash the process or never end.
func TestAProgramIsBoundedBeforeItIsParsed(t *testing.T) {
	for _, language := range []string{"javascript", "typescript"} {
		for i, d := range append(deep, deepTypes...) {
			middle := d[1]
			prefix := ""
			if i >= len(deep) && strings.Count(d[0], ":") == 1 && strings.HasPrefix(d[0], "let a:") {
				prefix, d[0] = "let a:", strings.TrimPrefix(d[0], "let a:")
			}
			for _, n := range []int{30, 240, 2000, 1_500_000 / len(d[0]+d[2]+"x")} {
				text := prefix + strings.Repeat(d[0], n) + middle + strings.Repeat(d[2], n)
				started := time.Now()
				prepare(language, text)
				if took := time.Since(started); took > 20*time.Second {
					t.Errorf("%s of %d times %q took %s", language, n, d[0], took)
				} else if testing.Verbose() && took > 500*time.Millisecond {
					t.Logf("%s of %d times %q took %s", language, n, d[0], took)
				}
			}
		}
	}
}

// TestNamesThatAreDeclaredOftenTakeNoTime: a parser looks up the place of the first for each.
func TestNamesThatAreDeclaredOftenTakeNoTime(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"const {a,b} = tools.a;\n", "let a\n", "let a: string\n", "class A {}\n", "const [a, ...b] = c\n", "let a, b = 1;\n", "const { a } = x, { b } = y\n"} {
		for _, language := range []string{"javascript", "typescript"} {
			started := time.Now()
			if _, f := prepare(language, strings.Repeat(unit, 400_000/len(unit))); f == nil {
				t.Errorf("%s: %q many times is accepted", language, unit)
			}
			if took := time.Since(started); took > 5*time.Second {
				t.Errorf("%s: %q many times took %v", language, unit, took)
			}
		}
	}
	fine := strings.Repeat("for (const k of l) { const {data: x, error} = await f(k); let y: string = x as string; if (y) { const x = 1 } }\nfunction g() { let a = 1, b = 2; return (c) => { let a = b } }\n", 500)
	if _, f := prepare("typescript", fine); f != nil {
		t.Errorf("line %d: %.300s", f.Line, f.Message)
	}
}

func TestALargeOrdinaryProgramIsParsed(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]string{
		"statements":             "f(1, [2, 3], {b: `${c} d ${`e${g}`}`}); { g(a) }\n",
		"no semicolons":          "f(x)\nx = a.b.c(d) + 5\nif (x) { y() } else if (z) { w() }\nfor (const i of l) g(i)\nawait h()\nv[0] = 'a'\n",
		"functions":              "async function f(a, b = {}) { return a.map((x) => x * 2).filter((x) => x) }\n",
		"callbacks":              "f((a) => { g((b) => { h((c) => { return (d) => d }) }) }) // done: (e) => f\n",
		"divisions":              "x = (a + b) / 2 + c / d // half / of\ny = a[0] / 3; z = f(1) / g(2) / 4\n",
		"regular expressions":    "if (/\"(/.test(x)) y = x.replace(/[/'\"]/g, '') || /`/.exec(x);\nwhile (/(/.test(y)) y = 1\n",
		"objects":                "x = {a: [1, 2], 'b c': {d: (e, f) => ({g: e})}, get h() { return 1 }};\n",
		"strings with brackets":  "x = '((((((((' + \"[[[[[[[\" + `{{{{{{{{`;\n",
		"comments with brackets": "/* (((((( */ x = 1; // [[[[[[ '\n",
		"classes":                "x = class A extends B { #p = 1; static s = 2; m() { return this.#p } };\n",
		"minified":               "var a=function(b){return b<3?b:b>>1},c=!a&&(d||e),f=g?h:i;",
	} {
		text := strings.Repeat(unit, 80_000/len(unit))
		if _, f := prepare("javascript", text); f != nil {
			t.Errorf("%s: line %d: %.300s", name, f.Line, f.Message)
		}
	}
	data := "const data = [" + strings.Repeat(`{"a": [1, 2, "x"], "b": {"c": null}}, `, 20_000) + "]\nreturn data.length"
	if _, f := prepare("javascript", data); f != nil {
		t.Errorf("data: %.300s", f.Message)
	}
	typed := strings.Repeat("interface A { b: Map<string, C<D>>; e?: (f: number) => void }\nvar g: A = h as unknown as A\nvar i = function<T>(j: T): T { return j! }\n", 1000)
	if _, f := prepare("typescript", typed); f != nil {
		t.Errorf("types: line %d: %.300s", f.Line, f.Message)
	}
}
