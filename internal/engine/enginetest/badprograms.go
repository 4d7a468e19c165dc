package enginetest

import "github.com/toolroom/toolroom/bridge"

// badPrograms are the programs that every engine must end.
var badPrograms = []BadProgram{
	{
		Key:    "an endless loop",
		Source: map[string]string{"python": "while True: pass", "javascript": "for (;;) {}", "wasm": "spin"},
		Ends:   "timeout",
	},
	{
		Key: "an endless loop that catches everything",
		Source: map[string]string{
			"python":     "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
			"javascript": "for (;;) { try { for (;;) {} } catch (e) {} finally { for (;;) {} } }",
		},
		Ends: "timeout",
	},
	{
		Key:    "more CPU time than it may use",
		Source: map[string]string{"python": "while True: pass", "javascript": "for (;;) { try { for (;;) {} } catch {} }", "wasm": "spin"},
		Ends:   "resource_limit limit", Says: "cpu",
		Limits: bridge.Limits{CPU: 1000},
	},
	{
		Key:    "an endless sleep",
		Source: map[string]string{"python": "import time\ntime.sleep(1e9)", "javascript": "await new Promise(r => setTimeout(r, 1e9))", "wasm": "sleep"},
		Ends:   "timeout",
	},
	{
		Key:    "deep recursion",
		Source: map[string]string{"python": "def f(): return f()\nf()", "javascript": "const f = () => f() + 1; f()"},
		Ends:   "program",
	},
	{
		Key:    "deep recursion through natives",
		Source: map[string]string{"python": "def f(x): return sorted([1, 2], key=f)\nf(1)", "javascript": "const f = () => [1].map(f); f()"},
		Ends:   "program",
	},
	{
		Key:    "a memory bomb",
		Source: map[string]string{"python": "x = []\nwhile True: x.append('x' * 1_000_000 + str(len(x)))", "javascript": "const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))", "wasm": "bomb"},
		Ends:   "resource_limit limit",
	},
	{
		Key:    "a memory bomb of small things",
		Source: map[string]string{"python": "x = []\nwhile True: x.append([len(x)])", "javascript": "const a = []; for (;;) a.push({a: {b: [a.length]}})", "wasm": "bits"},
		Ends:   "resource_limit limit",
	},
	{
		Key:    "one huge allocation",
		Source: map[string]string{"python": "'x' * (1 << 60)", "javascript": "new Uint8Array(1e13)", "wasm": "huge"},
		Ends:   "resource_limit limit program",
	},
	{
		Key:    "huge output",
		Source: map[string]string{"python": "while True: print('x' * 10000)", "javascript": "for (;;) console.log('x'.repeat(10000))", "wasm": "flood"},
		Ends:   "resource_limit",
	},
	{
		Key:    "a huge value",
		Source: map[string]string{"python": "'x' * 20_000_000", "javascript": "return 'x'.repeat(20e6)", "wasm": "value"},
		Ends:   "value ok", // ok if the value need not fit in a frame
	},
	{
		Key: "a fork bomb",
		Source: map[string]string{
			"python":     "import os\nwhile True: os.fork()",
			"javascript": "const children = require('child_process'); for (;;) children.execFileSync(process.execPath, ['-e', process.argv.join(' ')])",
		},
		Ends: "program unsupported limit resource_limit execution_failed",
	},
	{
		Key:    "a busy regular expression",
		Source: map[string]string{"python": "import re\nre.match('(a+)+$', 'a' * 64 + 'b')", "javascript": "/(a+)+$/.test('a'.repeat(60) + 'b')"},
		Ends:   "timeout ok", // ok if it takes linear time
	},
	{
		Key: "giant integers",
		Source: map[string]string{
			"python":     "n = 3\nwhile True: n = n * n % (1 << 400000) + 1",
			"javascript": "let n = 3n; for (;;) n = n * n % (1n << 400000n) + 1n",
		},
		Ends: "timeout",
	},
	{
		Key:    "an integer too large to send",
		Source: map[string]string{"python": "1 << 10_000_000", "javascript": "1n << 600000n"},
		Ends:   "value ok",
	},
	{
		Key: "an object that calls the host while the host is given it",
		Source: map[string]string{
			"python":     "class D(dict):\n    def items(self): return call_tool('echo:value', value=self)\ncall_tool('echo:value', value=D(a=1))",
			"javascript": "const p = new Proxy({}, {ownKeys() { call_tool('echo:value', {value: p}); return [] }, get: () => p}); await call_tool('echo:value', {value: p}); return p",
		},
		Ends: "program unsupported value check",
	},
	{
		Key: "an object that is a new object all the way down",
		Source: map[string]string{
			"python":     "class D(dict):\n    def items(self): return [('a', D(a=1))]\nD(a=1)",
			"javascript": "const p = () => new Proxy({}, {ownKeys: () => ['x'], getOwnPropertyDescriptor: () => ({enumerable: true, configurable: true}), get: (_, k) => k === 'x' ? p() : undefined}); return p()",
		},
		Ends: "value program unsupported",
	},
	{
		Key: "a getter that throws",
		Source: map[string]string{
			"python":     "class D(dict):\n    def items(self): raise RuntimeError('no')\nD(a=1)",
			"javascript": "return {get bad() { throw new Error('no') }}",
		},
		Ends: "value program unsupported",
	},
	{
		Key: "a getter that never returns",
		Source: map[string]string{
			"python":     "class D(dict):\n    def items(self):\n        while True: pass\nD(a=1)",
			"javascript": "return {get bad() { for (;;); }}",
		},
		Ends: "timeout unsupported",
	},
	{
		Key:    "a cyclic value",
		Source: map[string]string{"python": "a = {'list': []}\na['list'].append(a)\na", "javascript": "const a = {list: []}; a.list.push({a}); return a"},
		Ends:   "value",
	},
	{
		Key: "a cyclic argument",
		Source: map[string]string{
			"python":     "a = {'list': []}\na['list'].append(a)\ncall_tool('echo:value', value=a)",
			"javascript": "const a = {list: []}; a.list.push({a}); return await call_tool('echo:value', {value: a})",
		},
		Ends: "program value",
	},
	{
		Key:    "a value nested too deep",
		Source: map[string]string{"python": "a = []\nfor _ in range(100_000): a = [a]\na", "javascript": "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return a"},
		Ends:   "value",
	},
	{
		Key: "ten thousand calls at once, of a hundred that it may make",
		Source: map[string]string{
			"python":     "import asyncio\nawait asyncio.gather(*[tools.echo.value(value=n) for n in range(10_000)])",
			"javascript": "await Promise.all(Array.from({length: 10000}, (_, value) => tools.echo.value({value})))",
			"wasm":       "calls 10000",
		},
		Ends: "program resource_limit",
	},
	{
		Key: "ten thousand calls at once, that it may make",
		Source: map[string]string{
			"python":     "import asyncio\nlen(await asyncio.gather(*[tools.echo.value(value=n) for n in range(10_000)]))",
			"javascript": "return (await Promise.all(Array.from({length: 10000}, (_, value) => tools.echo.value({value})))).length",
			"wasm":       "calls 10000",
		},
		Limits: bridge.Limits{Calls: 10_000},
		Ends:   "ok",
	},
	{
		Key: "calls without end",
		Source: map[string]string{
			"python":     "while True:\n    try:\n        tools.echo.value(value=1)\n    except Exception:\n        pass",
			"javascript": "for (;;) try { await tools.echo.value({value: 1}) } catch (e) {}",
			"wasm":       "calls -1",
		},
		Ends: "timeout resource_limit",
	},

	// Programs that misuse the stream to the server.
	{
		Key: "garbage on the stream", Stream: true,
		Source: map[string]string{
			"python":     "import os\nos.write(STREAM, b'\\xff' * 64)\nwhile True: pass",
			"javascript": "require('fs').writeSync(STREAM, Buffer.alloc(64, 255)); for (;;);",
			"wasm":       "garbage",
		},
		Ends: brokenInterpreter,
	},
	{
		Key: "a closed stream", Stream: true,
		Source: map[string]string{
			"python":     "import os\nos.close(STREAM)\nwhile True: pass",
			"javascript": "require('fs').closeSync(STREAM); for (;;);",
		},
		Ends: brokenInterpreter,
	},
	{
		Key: "a made-up token", Stream: true,
		Source: map[string]string{
			"python":     "import os\nos.write(STREAM, bytes([0, 0, 0, 9, 0x84, 0x18, 30, 0, 0x43, 1, 2, 3, 0xa0]))\nwhile True: pass",
			"javascript": "require('fs').writeSync(STREAM, Buffer.from([0, 0, 0, 9, 0x84, 0x18, 30, 0, 0x43, 1, 2, 3, 0xa0])); for (;;);",
			"wasm":       "token",
		},
		Ends: brokenInterpreter,
	},
	{
		Key: "a frame that is announced and never ends", Stream: true,
		Source: map[string]string{
			"python":     "import os\nos.write(STREAM, b'\\x00\\xff\\xff\\xff')\nos.close(STREAM)\nwhile True: pass",
			"javascript": "const fs = require('fs'); fs.writeSync(STREAM, Buffer.from([0, 255, 255, 255])); fs.closeSync(STREAM); for (;;);",
			"wasm":       "announce",
		},
		Ends: brokenInterpreter,
	},
	{
		Key: "a frame that only the host sends", Stream: true,
		Source: map[string]string{"python": cpythonBridge + "b.send(33, {})\nwhile True: pass", "wasm": "result"},
		Ends:   brokenInterpreter,
	},
	{
		Key: "calls with ids that are in use, or are none", Stream: true,
		Source: map[string]string{"python": cpythonBridge + "for id in (7, 7, 7, 0, 2**40, 2**63):\n    b.send(10, {'tool': 'echo:value', 'arguments': {}}, id)\nwhile True: pass", "wasm": "ids"},
		Ends:   brokenInterpreter,
	},
	{
		Key: "calls whose answers are not read", Stream: true,
		Source: map[string]string{"python": cpythonBridge + "while True: b._ask(10, {'tool': 'echo:value', 'arguments': {'value': 'x' * 100_000}})", "wasm": "unread"},
		Ends:   brokenInterpreter,
	},
	{
		Key: "a program that continues after its last frame", Stream: true,
		Source: map[string]string{"python": cpythonBridge + "for _ in range(3): b.send(30, {'value': 1})\nwhile True: pass", "wasm": "on"},
		Ends:   "ok",
	},
	{
		Key: "a fatal signal", Stream: true,
		Source: map[string]string{"python": "import ctypes\nctypes.string_at(0)", "javascript": "process.abort()"},
		Ends:   brokenInterpreter,
	},
	{
		Key: "an exit without a word", Stream: true,
		Source: map[string]string{"python": "import os\nos._exit(3)", "javascript": "process.exit(3)"},
		Ends:   brokenInterpreter,
	},
}

// brokenInterpreter lists the allowed ends of a program that breaks its interpreter.
const brokenInterpreter = "timeout execution_failed program resource_limit limit"

// cpythonBridge is Python code that finds the bridge object of CPython's guest.
const cpythonBridge = "import gc\nb = next(o for o in gc.get_objects() if type(o).__name__ == 'Bridge')\n"
