package enginetest

import (
	"math/big"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// program is one behaviour, with a program in each language that shows it.
type program struct {
	key      string
	source   map[string]string
	inputs   bridge.Map
	withheld bridge.Map
	unknown  bridge.Map
	limits   bridge.Limits

	value   bridge.Value
	stdout  string
	stderr  string                                // contained in it
	failure func(t *testing.T, f *bridge.Failure) // the program must fail
	code    toolroom.Code                         // the run must end with this error
	after   func(t *testing.T, r *callHandler)
}

// failing checks the kind, line and texts of a failure.
func failing(kind bridge.FailureKind, line int, texts ...string) func(*testing.T, *bridge.Failure) {
	return func(t *testing.T, f *bridge.Failure) {
		t.Helper()
		if f.Kind != kind {
			t.Errorf("the failure is of kind %s, want %s: %v", f.Kind, kind, f)
		}
		if line != 0 && f.Line != line {
			t.Errorf("the failure is in line %d, want %d: %v", f.Line, line, f)
		}
		all := f.Type + ": " + f.Message + "\n" + f.Trace
		for _, text := range texts {
			if !strings.Contains(all, text) {
				t.Errorf("the failure does not say %q:\n%s", text, all)
			}
		}
	}
}

var programs = []program{
	{
		key:    "a value comes back",
		source: map[string]string{"python": "x = 20\nx + 22", "javascript": "const x = 20; return x + 22", "wasm": "add"},
		value:  int64(42),
	},
	{
		key: "text that cannot leave is an error that says which part",
		source: map[string]string{
			"python":     "half = b'\\xed\\xa0\\x80'.decode('utf-8', 'surrogatepass')\n{'rows': [1, half]}",
			"javascript": "return {rows: [1, 'a\\ud800']}",
		},
		failure: failing(bridge.FailValue, 0, "rows[1]", "surrogate"),
	},
	{
		key: "a name that cannot leave is an error that says which part",
		source: map[string]string{
			"python":     "half = b'\\xed\\xa0\\x80'.decode('utf-8', 'surrogatepass')\n{'rows': {'a' + half: 1}}",
			"javascript": "return {rows: {'a\\ud800': 1}}",
		},
		failure: failing(bridge.FailValue, 0, "rows", "surrogate"),
	},
	{
		key: "text that cannot be sent to a tool is an error that says which part",
		source: map[string]string{
			"python":     "half = b'\\xed\\xa0\\x80'.decode('utf-8', 'surrogatepass')\ntry:\n    tools.echo.value(value=['x', half])\nexcept Exception as e:\n    got = str(e)\n['surrogate' in got, 'value[1]' in got]",
			"javascript": "try { await tools.echo.value({value: ['x', '\\udc00']}) } catch (e) { return [e.message.includes('surrogate'), e.message.includes('value[1]')] }",
		},
		value: []bridge.Value{true, true},
		after: func(t *testing.T, r *callHandler) {
			if len(r.calls) > 0 {
				t.Errorf("the tool was called with other arguments: %v", r.calls)
			}
		},
	},
	{
		key:    "return at the top level",
		source: map[string]string{"python": "if True:\n    return 'early'\n'late'", "javascript": "if (true) { return 'early' }\nreturn 'late'"},
		value:  "early",
	},
	{
		key:    "no value",
		source: map[string]string{"python": "x = 1", "javascript": "const x = 1"},
	},
	{
		key:    "inputs are variables",
		source: map[string]string{"python": "[who, count + 1]", "javascript": "return [who, count + 1]"},
		inputs: bridge.Map{{Key: "who", Value: "you"}, {Key: "count", Value: int64(1)}},
		value:  []bridge.Value{"you", int64(2)},
	},
	{
		key: "a tool is called by every form of its name",
		source: map[string]string{
			"python":     "[tools.math.add(a=1, b=2), math.add(1, 2), tools.math.add({'a': 1, 'b': 2}), call_tool('math:add', {'a': 1, 'b': 2}), tools['math']['add'](a=1, b=2), run('math:add', a=1, b=2)]",
			"javascript": "return [await tools.math.add({a: 1, b: 2}), await math.add(1, 2), await call_tool('math:add', {a: 1, b: 2}), await tools['math']['add']({a: 1, b: 2}), await run('math:add', {a: 1, b: 2}), await tools.math.add({b: 2, a: 1})]",
		},
		value: []bridge.Value{int64(3), int64(3), int64(3), int64(3), int64(3), int64(3)},
	},
	{
		key: "a tool is called by an id in a variable",
		source: map[string]string{
			"python":     "id = 'math:add'\ntools[id](a=1, b=2)",
			"javascript": "const id = 'math:add'; return await tools[id]({a: 1, b: 2})",
		},
		value: int64(3),
	},
	{
		key: "calls run in parallel",
		source: map[string]string{
			"python":     "import asyncio\nawait asyncio.gather(*[tools.slow.meet(count=5) for _ in range(5)])",
			"javascript": "return await Promise.all([1, 2, 3, 4, 5].map(() => tools.slow.meet({count: 5})))",
			"wasm":       "meet",
		},
		value: []bridge.Value{"met", "met", "met", "met", "met"},
	},
	{
		key: "async functions",
		source: map[string]string{
			"python":     "async def double(n):\n    return await tools.math.add(a=n, b=n)\n[await double(1), await double(2)]",
			"javascript": "const double = async n => await tools.math.add({a: n, b: n}); return [await double(1), await double(2)]",
		},
		value: []bridge.Value{int64(2), int64(4)},
	},
	{
		key: "a failed tool is an error that can be caught",
		source: map[string]string{
			"python":     "try:\n    tools.fail.always()\nexcept ToolError as e:\n    got = [e.code, e.phase, e.tool, e.retryable, e.hint]\ngot",
			"javascript": "try { await tools.fail.always() } catch (e) { return [e.code, e.phase, e.tool, e.retryable, e.hint] }",
			"wasm":       "caught",
		},
		value: []bridge.Value{"upstream_error", "execute", "fail:always", true, "do not call it"},
	},
	{
		key: "a failed tool in the idiom of the language",
		source: map[string]string{
			"python":     "got = []\nfor call in (lambda: call_tool('no:tool'), lambda: call_tool('math:add', {})):\n    try:\n        call()\n    except LookupError:\n        got.append('lookup')\n    except ValueError:\n        got.append('value')\ngot",
			"javascript": "const got = []; for (const call of [() => call_tool('no:tool'), () => call_tool('math:add', {})]) { try { await call() } catch (e) { got.push(e instanceof ToolError && e instanceof Error ? e.code : 'other') } } return got.map(c => ({tool_not_found: 'lookup', invalid_arguments: 'value'})[c])",
		},
		value: []bridge.Value{"lookup", "value"},
	},
	{
		key:    "a failed tool, not caught",
		source: map[string]string{"python": "\ntools.fail.always()", "javascript": "\nawait tools.fail.always()"},
		failure: func(t *testing.T, f *bridge.Failure) {
			failing(bridge.FailProgram, 2, "it always fails")(t, f)
			if f.Tool == nil || f.Tool.Code != toolroom.CodeUpstreamError {
				t.Errorf("the failure does not hold the tool's error: %+v", f.Tool)
			}
		},
	},
	{
		key: "an error whose text cannot leave is still reported",
		source: map[string]string{
			"python":     "half = b'\\xed\\xa0\\x80'.decode('utf-8', 'surrogatepass')\nraise ValueError('it failed ' + half)",
			"javascript": "\nthrow new Error('it failed \\ud800')",
		},
		failure: failing(bridge.FailProgram, 2, "it failed"),
	},
	{
		key: "what is printed shows half a surrogate pair as a mark",
		source: map[string]string{
			"python":     "half = b'\\xed\\xa0\\x80'.decode('utf-8', 'surrogatepass')\nprint('é' + half + 'b')\n1",
			"javascript": "console.log('é\\ud800b'); return 1",
		},
		value: int64(1), stdout: "é\ufffdb\n",
	},
	{
		key: "an error that is too long for a frame is truncated",
		source: map[string]string{
			"python":     "\nraise ValueError('it failed' + 'x' * 17_000_000)",
			"javascript": "\nthrow new Error('it failed' + 'x'.repeat(17_000_000))",
		},
		failure: func(t *testing.T, f *bridge.Failure) {
			f.Message = f.Message[:min(len(f.Message), 100)] // for shorter test output
			failing(bridge.FailProgram, 2, "it failed")(t, f)
		},
	},
	{
		key: "a tool's error that the program modifies is still reported",
		source: map[string]string{
			"python":     "try:\n    tools.fail.always()\nexcept ToolError as e:\n    e.details = {'a': print, b'\\xff': 1}\n    raise",
			"javascript": "try { await tools.fail.always() }\ncatch (e) { e.details = {a: () => 1, b: '\\ud800'}; throw e }",
		},
		failure: failing(bridge.FailProgram, 0, "it always fails"),
	},
	{
		key: "the traceback shows the author's code only",
		source: map[string]string{
			"python":     "def inner(x):\n    return 1 / x\n\ninner(0)",
			"javascript": "function inner(x) {\n  return x.missing.deeper\n}\n\ninner({})",
		},
		failure: func(t *testing.T, f *bridge.Failure) {
			failing(bridge.FailProgram, 2, "inner")(t, f)
			for _, ours := range []string{"guest", "prelude", "bridge"} {
				if strings.Contains(f.Trace, ours) {
					t.Errorf("the traceback shows Toolroom's own code:\n%s", f.Trace)
				}
			}
		},
	},
	{
		key:     "a syntax error",
		source:  map[string]string{"python": "x = 1\ny = = 2", "javascript": "const x = 1;\nconst y = = 2;"},
		failure: failing(bridge.FailSyntax, 2),
	},
	{
		key:     "an unknown tool is refused before the run",
		source:  map[string]string{"python": "tools.math.add(a=1, b=1)\ntools.math.ad(a=1, b=2)", "javascript": "await tools.math.add({a: 1, b: 1});\nawait tools.math.ad({a: 1, b: 2})"},
		failure: failing(bridge.FailCheck, 2, "add"),
		after:   noCalls,
	},
	{
		key:     "a wrong argument is refused before the run",
		source:  map[string]string{"python": "tools.math.add(a=1, b=1)\ntools.math.add(a=1, c=2)", "javascript": "await tools.math.add({a: 1, b: 1});\nawait tools.math.add({a: 1, c: 2})"},
		failure: failing(bridge.FailCheck, 2, "c", "math"),
		after:   noCalls,
	},
	{
		key:     "a missing argument is refused before the run",
		source:  map[string]string{"python": "tools.math.add(a=1)", "javascript": "await tools.math.add({a: 1})"},
		failure: failing(bridge.FailCheck, 1, "b"),
		after:   noCalls,
	},
	{
		key:     "a forgotten await is refused before the run",
		source:  map[string]string{"python": "await tools.math.add(a=1, b=1)\nn = tools.math.add(a=1, b=2) + 1\nn", "javascript": "await tools.math.add({a: 1, b: 1});\nconst n = tools.math.add({a: 1, b: 2}) + 1;\nreturn n"},
		failure: failing(bridge.FailCheck, 2, "await"),
		after:   noCalls,
	},
	{
		key:     "an answer that a name holds without await is refused before the run",
		source:  map[string]string{"python": "await tools.math.add(a=1, b=1)\nr = tools.math.add(a=1, b=2)\nr['sum']", "javascript": "await tools.math.add({a: 1, b: 1});\nconst r = tools.math.add({a: 1, b: 2});\nreturn r.sum"},
		failure: failing(bridge.FailCheck, 3, "await tools.math.add"),
		after:   noCalls,
	},
	{
		key:     "an answer that is never awaited",
		source:  map[string]string{"python": "await tools.math.add(a=1, b=1)\nx = tools.math.add(a=1, b=2)\nNone", "javascript": "const x = tools.math.add({a: 1, b: 2});\nreturn null"},
		failure: failing(bridge.FailCheck, 0, "await"),
	},
	{
		key:      "a friendly name that was left out says why",
		source:   map[string]string{"python": "csv.read()", "javascript": "await csv.read()"},
		withheld: bridge.Map{{Key: "csv", Value: "csv is also a module of Python: write tools.csv"}},
		failure: func(t *testing.T, f *bridge.Failure) {
			failing(bridge.FailProgram, 1, "write tools.csv")(t, f)
			if strings.HasPrefix(f.Trace, "Traceback") && !strings.Contains(f.Trace, "write tools.csv") { // people see it alone
				t.Errorf("the traceback does not say it: %s", f.Trace)
			}
		},
	},
	{
		key: "command-line programs",
		source: map[string]string{
			"python":     "[cli.git.status(short=True).text(), cli.git.status().lines(), cli('git').status()['exit_code']]",
			"javascript": "return [await cli.git.status({short: true}).text(), await cli.git.status().lines(), (await cli('git').status()).exit_code]",
		},
		value: []bridge.Value{" M a\n?? b\n", []bridge.Value{" M a", "?? b"}, int64(0)},
	},
	{
		key: "words of a command line are written as the language writes them",
		source: map[string]string{
			"python":     "cli.git.status('a b', 7, 1000000.0, 1e-7, 2e16, -0.5, True, 2**70).text().split('|') == ['a b', '7', '1000000.0', '1e-07', '2e+16', '-0.5', 'True', str(2**70)]",
			"javascript": "return await cli.git.status('a b', 7, 1000000.5, 1e-7, 2e16, -0.5, true, 2n**70n).text() === ['a b', 7, 1000000.5, 1e-7, 2e16, -0.5, true, 2n**70n].join('|')",
		},
		value: true,
	},
	{
		key: "a program is called itself",
		source: map[string]string{
			"python":     "[cli.uname(s=True).text(), cli.uname('a', s=1).text(), cli('docker-compose')('up').text()]",
			"javascript": "return [await cli.uname({s: true}).text(), await cli.uname('a', {s: 1}).text(), await cli('docker-compose')('up').text()]",
		},
		value: []bridge.Value{"true []", "1 [a]", "<nil> [up]"},
	},
	{
		key: "a value whose reading prints and calls",
		source: map[string]string{
			"javascript": `const o = {
  start: "y".repeat(100), big: 2n**80n,
  get printed() { console.log("x".repeat(9000)); return 1 },
  get called() { return run("math:add", {a: 1, b: 2}) },
  nested: {toJSON() { return {sum: run("math:add", {a: {toJSON() { return run("math:add", {a: 1, b: 1}) }}, b: 2}), big: 2n**81n} }},
  end: "z",
};
const sum = await call_tool("math:add", {a: {toJSON() { return run("math:add", {a: 3, b: 4}) }}, b: 5});
return [sum, o.end, o]`,
		},
		stdout: strings.Repeat("x", 9000) + "\n",
		value: []bridge.Value{int64(12), "z", bridge.Map{
			{Key: "start", Value: strings.Repeat("y", 100)},
			{Key: "big", Value: new(big.Int).Lsh(big.NewInt(1), 80)},
			{Key: "printed", Value: int64(1)},
			{Key: "called", Value: int64(3)},
			{Key: "nested", Value: bridge.Map{{Key: "sum", Value: int64(4)}, {Key: "big", Value: new(big.Int).Lsh(big.NewInt(1), 81)}}},
			{Key: "end", Value: "z"},
		}},
	},
	{
		key: "every object has a toJSON",
		source: map[string]string{
			"javascript": "Object.prototype.toJSON = function () { return Object.keys(this).length }; return [{a: 1}, {b: 2, c: 3}]",
		},
		value: []bridge.Value{int64(1), int64(2)},
	},
	{
		key: "a program with sub-commands is called itself",
		source: map[string]string{
			"javascript": "return [await cli('git')('version').text(), await cli.git('version', {x: 1}).text(), await cli['git']().lines()]",
		},
		value: []bridge.Value{"2.0", "2.0", []bridge.Value{"2.0"}},
	},
	{
		key:     "a list is no word of a command line",
		source:  map[string]string{"python": "cli.git.status('-s', ['a', 'b'])", "javascript": "await cli.git.status('-s', ['a', 'b'])"},
		failure: failing(bridge.FailProgram, 1, "word 2 of"),
	},
	{
		key:     "nothing is no word of a command line",
		source:  map[string]string{"python": "cli.git.status(None, 'a')", "javascript": "await cli.git.status(null, 'a')"},
		failure: failing(bridge.FailProgram, 1, "word 1 of"),
	},
	{
		key: "the result of a command has attributes",
		source: map[string]string{
			"python":     "r = cli.git.status()\n[r.ok, r.exit_code, r.stdout, r.stderr]",
			"javascript": "const r = await cli.git.status(); return [r.ok, r.exit_code, r.stdout, r.stderr]",
		},
		value: []bridge.Value{true, int64(0), " M a\n?? b\n", ""},
	},
	{
		key: "the result of a command has attributes in programs that await",
		source: map[string]string{
			"python":     "r = await cli.git.status()\n[r.ok, r.exit_code, r.text()]",
			"javascript": "return [(await cli.git.status()).ok, 0, await cli.git.status().text()]",
		},
		value: []bridge.Value{true, int64(0), " M a\n?? b\n"},
	},
	{
		key: "search, describe, chain",
		source: map[string]string{
			"python":     "[search_tools('sum', limit=3)[0]['id'], describe_tool('math:add')['level'], run_chain([{'tool': 'a:b'}, {'tool': 'c:d'}])]",
			"javascript": "return [(await search_tools('sum', 3))[0].id, (await describe_tool('math:add')).level, await run_chain([{tool: 'a:b'}, {tool: 'c:d'}])]",
		},
		value: []bridge.Value{"math:add", "schema", int64(2)},
	},
	{
		key: "artifacts go out and come in whole",
		source: map[string]string{
			"python":     "h = artifacts.put('a.txt', 'hello world')\n[h.size, artifacts.get(h).decode(), results.get(h)]",
			"javascript": "const h = await artifacts.put('a.txt', 'hello world'); return [h.size, String.fromCharCode(...await artifacts.get(h)), await results.get(h)]",
		},
		value: []bridge.Value{int64(11), "hello world", "hello world"},
	},
	{
		key: "output, progress and logs",
		source: map[string]string{
			"python":     "import sys\nprint('out', 1)\nprint('err', file=sys.stderr)\nprogress(1, 2, 'half')\nlog('note', level='warning')\nprint('more')\nNone",
			"javascript": "console.log('out', 1); console.error('err'); progress(1, 2, 'half'); log('note', 'warning'); console.log('more'); return null",
		},
		stdout: "out 1\nmore\n", stderr: "err",
		after: func(t *testing.T, r *callHandler) {
			t.Helper()
			if strings.Join(r.progress, ",") != "1/2 half" || strings.Join(r.logs, ",") != "warning note" {
				t.Errorf("progress %q, logs %q", r.progress, r.logs)
			}
		},
	},
	{
		key:     "a value that cannot leave says which part",
		source:  map[string]string{"python": "{'rows': [1, object()]}", "javascript": "return {rows: [1, () => 2]}"},
		failure: failing(bridge.FailValue, 0, "rows[1]"),
	},
	{
		key:     "a number that is none",
		source:  map[string]string{"python": "{'a': float('nan')}", "javascript": "return {a: NaN}"},
		failure: failing(bridge.FailValue, 0, "a is"),
	},
	{
		key:     "a value that holds itself",
		source:  map[string]string{"python": "a = []\na.append(a)\na", "javascript": "const a = []; a.push(a); return a"},
		failure: failing(bridge.FailValue, 0),
	},
	{
		key: "an id that no tool has is found before the run",
		source: map[string]string{
			"python":     "# call_tool('math:ad')\nx = \"call_tool('math:ad')\"\ntools.math.add(a=1, b=2)\ncall_tool('math:ad', {'a': 1})",
			"javascript": "// call_tool('math:ad')\nconst x = \"call_tool('math:ad')\";\nawait tools.math.add({a: 1, b: 2});\nawait call_tool('math:ad', {a: 1})",
		},
		unknown: bridge.Map{{Key: "math:ad", Value: "did you mean math:add?"}},
		failure: failing(bridge.FailCheck, 4, "did you mean math:add?"),
		after:   noCalls,
	},
	{
		key: "a namespace that is not there is found before the run",
		source: map[string]string{
			"python":     "tools.math.add(a=1, b=2)\ntools.mat.add(a=1)",
			"javascript": "await tools.math.add({a: 1, b: 2});\nawait tools.mat.add({a: 1})",
		},
		unknown: bridge.Map{{Key: "tools.mat", Value: "did you mean tools.math?"}},
		failure: failing(bridge.FailCheck, 2, "did you mean tools.math?"),
		after:   noCalls,
	},
	{
		key: "what only looks like an unknown id runs",
		source: map[string]string{
			"python":     "# call_tool('math:ad')\nx = \"run('math:ad')\"\ndef twice(run): return run('math:ad')\n[x, twice(len)]",
			"javascript": "// call_tool('math:ad')\nconst x = \"run('math:ad')\", twice = (run) => run('math:ad'); return [x, twice((id) => id.length)]",
		},
		unknown: bridge.Map{{Key: "math:ad", Value: "did you mean math:add?"}},
		value:   []bridge.Value{"run('math:ad')", int64(7)},
	},
	{
		key: "wrong arguments of a call by id are found before the run",
		source: map[string]string{
			"python":     "tools.math.add(a=1, b=2)\ncall_tool('math:add', {'a': 1, 'bb': (2, {'x': 3})})",
			"javascript": "await tools.math.add({a: 1, b: 2});\nawait call_tool('math:add', {a: 1, bb: 2})",
		},
		failure: failing(bridge.FailCheck, 2, "math:add has no argument bb", "tools.math.add("),
		after:   noCalls,
	},
	{
		key: "a text that an argument cannot be is found before the run",
		source: map[string]string{
			"python":     "tools.math.add(a=1, b=2)\ntools.paint.wall(colour='blue')",
			"javascript": "await tools.math.add({a: 1, b: 2});\nawait tools.paint.wall({colour: 'blue'})",
		},
		failure: failing(bridge.FailCheck, 2, `paint:wall takes "red" or "dark green" as colour, and gets "blue"`),
		after:   noCalls,
	},
	{
		key: "a sub-command of a program need not be listed",
		source: map[string]string{
			"python":     "[cli('git').version().text(), cli.git.version().text(), cli.git.rev_parse('HEAD', short=True)['ok'], call_tool('git:version')['stdout']]",
			"javascript": "return [await cli('git').version().text(), await cli.git.version().text(), (await cli.git.rev_parse('HEAD', {short: true})).ok, (await call_tool('git:version')).stdout]",
		},
		value: []bridge.Value{"2.0", "2.0", true, "2.0"},
	},
	{
		key: "a tool can be named by itself",
		source: map[string]string{
			"python":     "[describe_tool(tools.math.add)['id'], call_tool(tools.math.add, {'a': 1, 'b': 2})]",
			"javascript": "return [(await describe_tool(tools.math.add)).id, await call_tool(tools.math.add, {a: 1, b: 2})]",
		},
		value: []bridge.Value{"math:add", int64(3)},
	},
	{
		key: "an artifact of any value is JSON",
		source: map[string]string{
			"python":     "h = artifacts.put('rows.json', {'rows': [1, None, 'ü']})\n[h.media_type, results.get(h), results.get(artifacts.put('t', 'grüße'))]",
			"javascript": "const h = await artifacts.put('rows.json', {rows: [1, null, 'ü']}); return [h.media_type, await results.get(h), await results.get(await artifacts.put('t', 'grüße'))]",
		},
		value: []bridge.Value{"application/json", bridge.Map{{Key: "rows", Value: []bridge.Value{int64(1), nil, "ü"}}}, "grüße"},
	},
	{
		key: "what cannot be kept as an artifact says which part",
		source: map[string]string{
			"python":     "try:\n    artifacts.put('rows.json', {'rows': [1, float('nan')]})\nexcept TypeError as e:\n    x = str(e)\n'rows[1] is ' in x and 'artifacts.put' in x",
			"javascript": "try { await artifacts.put('rows.json', {rows: [1, NaN]}) } catch (e) { return e.message.includes('rows[1] is ') && e.message.includes('artifacts.put') }",
		},
		value: true,
	},
	{
		key:     "deep recursion",
		source:  map[string]string{"python": "def f(): return f()\nf()", "javascript": "function f() { return f() + 1 }\nf()"},
		failure: failing(bridge.FailProgram, 0),
	},
	{
		key:    "too much output",
		source: map[string]string{"python": "while True: print('x' * 1000)", "javascript": "for (;;) console.log('x'.repeat(1000))", "wasm": "flood"},
		limits: bridge.Limits{Output: 100_000},
		code:   toolroom.CodeResourceLimit,
	},
	{
		key: "more calls than allowed can be caught",
		source: map[string]string{
			"python":     "n = 0\ntry:\n    while n < 10:\n        tools.math.add(a=1, b=1)\n        n += 1\nexcept ToolError as e:\n    n = [n, e.code]\nn",
			"javascript": "let n = 0; try { while (n < 10) { await tools.math.add({a: 1, b: 1}); n++ } } catch (e) { return [n, e.code] }",
		},
		limits: bridge.Limits{Calls: 5},
		value:  []bridge.Value{int64(5), "budget_exceeded"},
	},
	{
		key: "a thousand calls",
		source: map[string]string{
			"python":     "sum(tools.math.add(a=i, b=1) for i in range(1000))",
			"javascript": "let n = 0; for (let i = 0; i < 1000; i++) n += await tools.math.add({a: i, b: 1}); return n",
			"wasm":       "sums 1000",
		},
		limits: bridge.Limits{Calls: 1000},
		value:  int64(500_500),
	},
	{
		key: "a large value",
		source: map[string]string{
			"python":     "len(tools.echo.value(value='x' * 3_000_000))",
			"javascript": "return (await tools.echo.value({value: 'x'.repeat(3_000_000)})).length",
		},
		value: int64(3_000_000),
	},
}

func noCalls(t *testing.T, r *callHandler) {
	t.Helper()
	if len(r.calls) > 0 {
		t.Errorf("the program ran: it called %v", r.calls)
	}
}
