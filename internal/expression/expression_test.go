package expression_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/builtin"

	"github.com/toolroom/toolroom/internal/expression"
)

var variables = map[string]any{
	"previous": map[string]any{
		"items": []any{1, 2, 3}, "names": []any{"b", "a", "b"}, "text": "a,b,c", "n": 3.5, "none": nil,
		"people": []any{map[string]any{"name": "Ann", "age": 31}, map[string]any{"name": "Bob", "age": 25}},
	},
	"steps": []any{map[string]any{"id": 7}},
}

func evaluate(text string) (any, error) {
	p, err := expression.Compile(text, expression.Any, "previous", "steps")
	if err != nil {
		return nil, err
	}
	return p.Run(context.Background(), new(expression.Meter), variables)
}

// Nothing but the limits is different from Expr.
func TestExpressionsAreThoseOfExpr(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`1 + 2`, `"a" + "b"`, `previous.n + 1`, `previous.text + "!"`, `1 == 1.0`, `previous.items == [1, 2, 3]`, `"a" != "b"`, `1 < 2 < 3`,
		`previous.n >= 3`, `2 in previous.items`, `"x" not in previous.names`, `"text" in previous`, `previous.text matches "^a,"`, `"x" not matches "y"`,
		`previous.text contains "b"`, `previous.text startsWith "a"`, `previous.text endsWith "c"`, `previous.none contains "b"`, `previous.items[1:]`, `previous.items[-1]`, `previous.text[0:1]`,
		`previous.people[0].name`, `previous?.missing?.name`, `previous.none ?? "default"`, `let x = previous.n; x * 2`, `previous.n > 3 ? "more" : "less"`,
		`{"a": 1, (previous.names[0]): 2}`, `[1, "a", nil]`, `1..5`, `-previous.n`, `not true`, `2 ** 3`, `7 % 4`, `true and previous.n > 1`,
		`all(previous.items, # > 0)`, `none(previous.items, # > 5)`, `any(previous.items, # == 2)`, `one(previous.items, # == 2)`, `filter(previous.people, .age > 30)`,
		`map(previous.people, .name)`, `find(previous.items, # > 1)`, `findIndex(previous.items, # > 1)`, `findLast(previous.items, # > 1)`, `findLastIndex(previous.items, # > 1)`,
		`count(previous.items, # > 1)`, `count([true, false])`, `sum(previous.items)`, `sum(previous.people, .age)`, `sortBy(previous.people, .age)`, `sortBy(previous.people, .age, "desc")`,
		`reduce(previous.items, #acc + #, 0)`, `reduce(previous.items, #acc + #)`, `len(groupBy(previous.names, #))`, `map(filter(previous.items, # > 1), # * 2)`, `len(filter(previous.items, # > 1))`,
		`previous.items | map(# + 1) | filter(# > 2) | len()`, `len(previous.text)`, `type(previous)`, `abs(-2)`, `ceil(1.2)`, `floor(1.2)`, `round(1.5)`, `int("3")`, `float("3.5")`, `string(previous.items)`,
		`trim("  a ")`, `trim("xax", "x")`, `trimPrefix("abc", "a")`, `trimSuffix("abc", "c")`, `upper("a")`, `lower("A")`, `split(previous.text, ",")`, `split(previous.text, ",", 2)`,
		`splitAfter(previous.text, ",")`, `replace("aXbX", "X", "-")`, `replace("aXbX", "X", "-", 1)`, `repeat("ab", 3)`, `join(previous.names, "-")`, `join(split(previous.text, ","))`,
		`indexOf("abc", "c")`, `lastIndexOf("abcb", "b")`, `hasPrefix("abc", "a")`, `hasSuffix("abc", "c")`, `max(1, 2, 3)`, `min([3, 1])`, `mean([1, 2])`, `median([1, 2, 9])`,
		`toJSON(previous.people[0])`, `fromJSON("{\"a\": [1]}").a[0]`, `toBase64("a")`, `fromBase64("YQ==")`, `duration("1h").Minutes()`, `date("2026-01-02").Year()`, `date("2026-01-02").Format("2006")`,
		`findLast(previous.items, # > 1) == 3`, `[findLast(previous.items, # > 9), 1]`, `findLastIndex(previous.items, # > 9)`, `map(previous.items, #index)`,
		`first(previous.items)`, `last(previous.items)`, `get(previous, "n")`, `take(previous.items, 2)`, `len(keys(previous))`, `len(values(previous))`, `toPairs({"a": 1})`, `fromPairs([["a", 1]])`,
		`reverse(previous.items)`, `uniq(previous.names)`, `uniq([1, 1.0, 2])`, `concat(previous.items, [4])`, `flatten([1, [2, [3]]])`, `sort(previous.names)`, `sort(previous.items, "desc")`,
		`bitand(6, 3)`, `bitor(6, 3)`, `bitxor(6, 3)`, `bitnand(6, 3)`, `bitshl(1, 3)`, `bitshr(8, 2)`, `bitushr(8, 2)`, `bitnot(1)`, `1; 2`, `if previous.n > 3 { 1 } else { 2 }`,
	} {
		want, wantErr := expr.Eval(text, variables)
		got, err := evaluate(text)
		if err != nil || wantErr != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, %v; Expr gives %#v, %v", text, got, err, want, wantErr)
		}
	}
}

// Everything that Expr can do is here with an attack that a limit must end. A new
// operator or builtin of Expr has none, and fails.
func TestEveryOperatorAndBuiltinIsBounded(t *testing.T) {
	// As large as one value can become within the limits.
	const (
		long  = `repeat("0123456789abcdef", 1000000)` // 16 MB
		text  = `let s = repeat("a ", 1000000); `
		list  = `let l = map(1..400000, #); `
		many  = `1..400000`
		graph = `let g = reduce(1..60, [#acc, #acc], "x"); `
		deep  = `let d = reduce(1..300000, [#acc], 1); `
	)
	attacks := map[string][]string{
		"+":             {`reduce(1..40, #acc + #acc, "xxxxxxxxxx")`, `reduce(` + many + `, #acc + "xx", "")`, `len(map(1..20, reduce(1..24, #acc + #acc, "xxxxxxxxxx")))`},
		"==":            {graph + `let h = reduce(1..60, [#acc, #acc], "x"); g == h`, deep + `let e = reduce(1..300000, [#acc], 1); d == e`, text + `all(` + many + `, s == repeat("a ", 1000000))`},
		"!=":            {graph + `let h = reduce(1..60, [#acc, #acc], "x"); g != h`},
		"<":             {text + `all(` + many + `, s <= s)`, strings.Repeat("(1<", 40) + "1" + strings.Repeat("<2)", 40)},
		">":             {text + `any(` + many + `, s > s)`},
		"<=":            {text + `all(` + many + `, s <= s)`},
		">=":            {text + `all(` + many + `, s >= s)`},
		"in":            {list + `all(l, # in l)`, list + `any(l, -# in l)`, graph + `g in [g]`, text + `any(` + many + `, s in {"a": 1})`},
		"matches":       {text + `any(` + many + `, s matches "(a|b|ab)*c")`, `any(` + many + `, "x" matches ("a{900}" + string(#)))`, text + `s matches s`, `"a" matches "` + strings.Repeat("a{999}", 400) + `"`},
		"contains":      {text + `any(` + many + `, s contains "b")`},
		"startsWith":    {text + `all(` + many + `, s startsWith s)`},
		"endsWith":      {text + `all(` + many + `, s endsWith s)`},
		"..":            {`1..2000000`, `map(1..1000, 1..1000)`, `map(1..1000, map(1..1000, 1))`},
		"[]":            {text + `let m = {"a": 1}; all(` + many + `, m[s] == nil)`},
		"{}":            {text + `map(` + many + `, ({(s): 1}))`},
		"method":        {text + `map(` + many + `, now().Format(s))`, `map(` + many + `, date("2026-01-02").Format(repeat("January", 1000)))`},
		"result":        {graph + `g`, deep + `d`},
		"all":           {`all(` + many + `, all(` + many + `, true))`},
		"none":          {`none(` + many + `, none(` + many + `, false) == false)`},
		"any":           {`any(` + many + `, any(` + many + `, false))`},
		"one":           {`one(` + many + `, one(` + many + `, false))`},
		"filter":        {`filter(` + many + `, len(filter(` + many + `, false)) > 0)`},
		"map":           {`map(` + many + `, count(` + many + `, true))`},
		"find":          {`find(` + many + `, find(` + many + `, false) != nil)`},
		"findIndex":     {`findIndex(` + many + `, findIndex(` + many + `, false) != nil)`},
		"findLast":      {`findLast(` + many + `, findLast(` + many + `, false) != nil)`},
		"findLastIndex": {`findLastIndex(` + many + `, findLastIndex(` + many + `, false) != nil)`},
		"count":         {`count(` + many + `, count(` + many + `, true) < 0)`, list + `map(l, count(map(l, true)))`},
		"sum":           {`sum(` + many + `, sum(` + many + `, 1))`, list + `map(l, sum(l))`},
		"groupBy":       {`groupBy(` + many + `, repeat("a", 1000) + string(#))`},
		"sortBy":        {`sortBy(` + many + `, repeat("a", 1000) + string(#))`, text + `sortBy(` + many + `, s)`},
		"reduce":        {`reduce(` + many + `, reduce(` + many + `, 1, 0), 0)`},
		"len":           {text + `map(` + many + `, len(s))`},
		"type":          nil,
		"abs":           nil, "ceil": nil, "floor": nil, "round": nil, // of numbers only
		"int":         {text + `map(` + many + `, int(trim(s, "a ") + "1"))`},
		"float":       {text + `map(` + many + `, float(trim(s, "a ") + "1"))`},
		"string":      {graph + `string(g)`, deep + `string(d)`, text + `map(` + many + `, string(s))`, list + `map(l, string(l))`},
		"trim":        {text + `map(` + many + `, trim(s))`, text + `trim(s, repeat("é", 100000) + "a ")`},
		"trimPrefix":  {text + `map(` + many + `, trimPrefix(s, s))`},
		"trimSuffix":  {text + `map(` + many + `, trimSuffix(s, s))`},
		"upper":       {text + `map(` + many + `, upper(s))`},
		"lower":       {text + `map(` + many + `, lower(s))`},
		"split":       {`map(1..50, split(` + long + `, ""))`, text + `map(` + many + `, split(s, " "))`},
		"splitAfter":  {text + `map(` + many + `, splitAfter(s, " "))`},
		"replace":     {text + `replace(s, "a", s)`, text + `replace(s, "", s)`, text + `map(` + many + `, replace(s, "b", ""))`},
		"repeat":      {`repeat(repeat("x", 1000000), 1000000)`, `map(` + many + `, repeat("x", 1000000))`, `repeat("x", 100000000)`},
		"join":        {text + `join(split(s, " "), s)`, text + `let l = split(s, " "); map(` + many + `, join(l, "-"))`, `join(map(1..1000, repeat("x", 1000000)))`},
		"indexOf":     {text + `map(` + many + `, indexOf(s, "b"))`},
		"lastIndexOf": {text + `map(` + many + `, lastIndexOf(s, "b"))`},
		"hasPrefix":   {text + `map(` + many + `, hasPrefix(s, s))`},
		"hasSuffix":   {text + `map(` + many + `, hasSuffix(s, s))`},
		"max":         {graph + `max(g)`, list + `map(l, max(l))`},
		"min":         {graph + `min(g)`, list + `map(l, min(l))`},
		"mean":        {graph + `mean(g)`, list + `map(l, mean(l))`},
		"median":      {`let g = reduce(1..60, [#acc, #acc], 1); median(g)`, list + `map(l, median(l))`},
		"toJSON":      {graph + `toJSON(g)`, deep + `toJSON(d)`, text + `map(` + many + `, toJSON(s))`, `let s = repeat("<", 1000000); map(1..100, toJSON(s))`},
		"fromJSON":    {`fromJSON("[" + repeat("[],", 1000000) + "1]")`, `map(` + many + `, fromJSON("[" + repeat("1,", 1000) + "1]"))`, `fromJSON(repeat("[", 9000) + repeat("]", 9000))`},
		"toBase64":    {text + `map(` + many + `, toBase64(s))`},
		"fromBase64":  {`let s = repeat("AAAA", 1000000); map(` + many + `, fromBase64(s))`},
		"now":         {`map(` + many + `, now())`},
		"duration":    {`map(` + many + `, duration(repeat("1h", 10000)))`},
		"date":        {`map(` + many + `, date("2026-01-02", "2006-01-02", "Europe/Zurich"))`},
		"timezone":    {`map(` + many + `, timezone("Europe/Zurich"))`},
		"first":       nil, "last": nil, "take": nil, // of constant cost
		"get":       {text + `map(` + many + `, get({"a": 1}, s))`},
		"keys":      {`let m = fromPairs(map(1..10000, [string(#), 1])); map(` + many + `, keys(m))`},
		"values":    {`let m = fromPairs(map(1..10000, [string(#), 1])); map(` + many + `, values(m))`},
		"toPairs":   {`let m = fromPairs(map(1..10000, [string(#), 1])); map(` + many + `, toPairs(m))`},
		"fromPairs": {`let p = map(1..10000, [string(#), 1]); map(` + many + `, fromPairs(p))`},
		"reverse":   {list + `map(l, reverse(l))`},
		"uniq":      {`uniq(` + many + `)`, graph + `uniq([g, g])`, text + `map(` + many + `, uniq([s, s]))`},
		"concat":    {list + `map(l, concat(l, l))`},
		"flatten":   {graph + `flatten(g)`, deep + `flatten(d)`, list + `map(l, flatten([l]))`},
		"sort":      {list + `map(l, sort(l))`, text + `sort(map(1..100000, s))`},
		"bitand":    nil, "bitor": nil, "bitxor": nil, "bitnand": nil, "bitshl": nil, "bitshr": nil, "bitushr": nil, "bitnot": nil, // of numbers only
	}
	for _, f := range builtin.Builtins {
		if _, ok := attacks[f.Name]; !ok {
			t.Errorf("the builtin %s has no attack", f.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(attacks)) {
		for _, text := range attacks[name] {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			started := time.Now()
			v, err := evaluate(text)
			took := time.Since(started)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Errorf("%s: %.80s was let through, with a %T", name, text, v)
			}
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 512 {
				t.Errorf("%s: %.80s made %d MiB", name, text, made)
			}
			if took > 10*time.Second {
				t.Errorf("%s: %.80s took %s", name, text, took)
			}
			if testing.Verbose() {
				t.Logf("%-12s %6d MiB %9s  %.60s  %.80v", name, (after.TotalAlloc-before.TotalAlloc)>>20, took.Round(time.Millisecond), text, err)
			}
		}
	}
}

func TestAnExpressionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p, err := expression.Compile(`map(1..300000, # + 1)`, expression.Any)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Run(ctx, new(expression.Meter), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("it went on after the cancel: %v", err)
	}
}

func TestExpressionsOfOneMeterShareItsWork(t *testing.T) {
	t.Parallel()
	p, err := expression.Compile(`len(repeat("x", 1000000))`, expression.Any)
	if err != nil {
		t.Fatal(err)
	}
	m := new(expression.Meter)
	for range 1000 {
		if _, err = p.Run(t.Context(), m, nil); err != nil {
			break
		}
	}
	if !errors.Is(err, expression.ErrWork) {
		t.Errorf("a thousand million bytes were made: %v", err)
	}
}

func TestAnExpressionIsBoundedBeforeItIsParsed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		strings.Repeat("(", 500_000), strings.Repeat("[", 500_000), strings.Repeat("!", 500_000), strings.Repeat("-", 500_000), strings.Repeat("a.", 500_000), strings.Repeat("a?", 500_000),
		strings.Repeat("{a:", 500_000), strings.Repeat("if a {", 100_000), strings.Repeat("let a=", 100_000), strings.Repeat("1..", 500_000), strings.Repeat("map(", 500_000), strings.Repeat("1,", 500_000),
		strings.Repeat("(", 4000), strings.Repeat("!", 4000) + "true" + "$env", strings.Repeat("(1<", 60) + "1" + strings.Repeat("<2)", 60), "$env", `$env[" run"]`,
	} {
		if _, err := expression.Compile(text, expression.Any); err == nil {
			t.Errorf("%.40s… was let through", text)
		}
	}
}

func FuzzExpressions(f *testing.F) {
	for _, text := range []string{"", "(((", "previous.items", `reduce(1..9, #acc + #acc, "x")`, "(1<(1<1<2)<2)", `"a" matches "(("`, "{a: [", "if a { b } else if", "let a = 1; a", "$env", "map(previous.items, {x: #})"} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) { _, _ = evaluate(text) })
}

func TestErrorsHaveNoTypesOfGo(t *testing.T) {
	for text, want := range map[string]string{
		"a.b.c":    "cannot read c from nil",
		"a + 1":    "object + int",
		"list + 1": "list + int",
	} {
		p, err := expression.Compile(text, expression.Any, "a", "list")
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Run(t.Context(), new(expression.Meter), map[string]any{"a": map[string]any{}, "list": []any{}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
