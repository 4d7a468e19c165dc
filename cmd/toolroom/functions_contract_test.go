package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/secret"
)

// workshop is a room in this process, with its sandboxes.
type workshop struct {
	*app.App
	t *testing.T
}

// newWorkshop opens a room in a new home. The variables come in addition to those of this
// process, or in their place.
func newWorkshop(t *testing.T, config string, variables ...string) workshop {
	t.Helper()
	return workshopIn(t, t.TempDir(), config, variables...)
}

func workshopIn(t *testing.T, home, config string, variables ...string) workshop {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("functions need the sandboxes of Linux")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := enginetest.ShareCompiled(home, compiled()); err != nil {
		t.Fatal(err)
	}
	small, err := guest()
	if err != nil {
		t.Fatal(err)
	}
	o := app.Options{Home: home, Helper: self, Guest: app.Guest{Path: small}, Environ: environ(variables...)}
	if config != "" {
		o.ConfigFile = t.TempDir() + "/toolroom.yaml"
		if err := os.WriteFile(o.ConfigFile, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := app.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return workshop{r, t}
}

// guest builds toolroom-guest, which starts in a tenth of the time of the test binary,
// and which people run.
var guest = sync.OnceValues(func() (string, error) {
	path := filepath.Join(compiled(), "toolroom-guest")
	return path, enginetest.BuildGuest(path)
})

// environ returns the environment of this process with other values of some variables.
func environ(variables ...string) []string {
	out := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(variables, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	})
	return append(out, variables...)
}

func (w workshop) push(name, source string) ([]release.Pushed, error) {
	return w.Parts().Releases.Push(w.t.Context(), release.Upload{Files: map[string]string{name: source}, File: name, Base: -1}, "ada")
}

// serve pushes a file and releases all of its tools to prod.
func (w workshop) serve(name, source string) {
	w.t.Helper()
	pushed, err := w.push(name, source)
	if err != nil {
		w.t.Fatalf("push %s: %v", name, err)
	}
	for _, p := range pushed {
		if _, err := w.Parts().Releases.Release(w.t.Context(), release.Order{Tool: p.Tool, Force: true}, "ada"); err != nil {
			w.t.Fatalf("release %s: %v", p.Tool, err)
		}
	}
}

func (w workshop) call(tool, arguments string) *toolroom.Result {
	w.t.Helper()
	return w.Run(w.t.Context(), toolroom.Call{Tool: tool, Arguments: json.RawMessage(arguments)})
}

func (w workshop) wantValue(tool, arguments, want string) {
	w.t.Helper()
	r := w.call(tool, arguments)
	if r.Error != nil {
		w.t.Errorf("%s(%s): %v %v", tool, arguments, r.Error, r.Error.Details)
	} else if string(r.Value) != want {
		w.t.Errorf("%s(%s) = %s, want %s", tool, arguments, r.Value, want)
	}
}

func (w workshop) wantError(tool, arguments string, code toolroom.Code, parts ...string) {
	w.t.Helper()
	r := w.call(tool, arguments)
	if r.Error == nil {
		w.t.Errorf("%s(%s) = %s, want error %s", tool, arguments, r.Value, code)
		return
	}
	if r.Error.Code != code {
		w.t.Errorf("%s(%s): error %s, want %s: %v", tool, arguments, r.Error.Code, code, r.Error)
	}
	for _, part := range parts {
		if !strings.Contains(r.Error.Message, part) {
			w.t.Errorf("%s(%s): %q is missing in %q", tool, arguments, part, r.Error.Message)
		}
	}
}

const valuesSource = `
from __future__ import annotations
import datetime, decimal, enum, uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional, TypedDict

__all__ = ["native", "colour", "point", "tree", "when", "money", "anything", "optional", "defaults", "raw", "extra", "typed", "later", "count", "acount", "picture", "nothing"]

class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"

@dataclass
class Point:
    x: float
    y: float = 0.0
    tags: list[Colour] = field(default_factory=list)

@dataclass
class Node:
    value: int
    children: list[Node] = field(default_factory=list)

class Row(TypedDict, total=False):
    name: str
    size: int

def native(i: int, f: float, s: str, b: bool, l: list[int], d: dict[str, int]) -> list[Any]:
    return [type(v).__name__ for v in (i, f, s, b, l, d)]

def colour(c: Colour) -> str:
    return c.name

def point(p: Point) -> Point:
    assert isinstance(p, Point) and all(isinstance(t, Colour) for t in p.tags)
    return Point(p.y, p.x, p.tags)

def tree(n: Node) -> int:
    return n.value + sum(tree(c) for c in n.children)

def when(at: datetime.datetime) -> datetime.datetime:
    return at + datetime.timedelta(hours=1)

def money(amount: decimal.Decimal) -> str:
    return str(amount * 2)

def anything(v: Any) -> Any:
    return v

def optional(v: Optional[int] = None) -> str:
    return repr(v)

def defaults(a: int, b: Literal["x", "y"] = "y", *, c: Annotated[int, "a number", {"minimum": 1}] = 3) -> str:
    return f"{a}{b}{c}"

def raw(data: bytes) -> bytes:
    return data[::-1]

def extra(a: int, **rest: int) -> int:
    return a + sum(rest.values())

def typed(rows: list[Row]) -> int:
    return sum(r.get("size", 0) for r in rows)

async def later(v: int) -> int:
    import asyncio
    await asyncio.sleep(0)
    return v + 1

def count(n: int) -> list[int]:
    for i in range(n):
        yield i

async def acount(n: int) -> list[int]:
    for i in range(n):
        yield i

def picture() -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"x" * 10

def nothing(v: int) -> None:
    pass
`

func TestAFunctionGetsAndReturnsNativeValues(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.serve("values.py", valuesSource)
	for _, c := range []struct{ tool, arguments, want string }{
		{"native", `{"i":1,"f":2,"s":"s","b":true,"l":[1],"d":{"a":1}}`, `["int","float","str","bool","list","dict"]`},
		{"colour", `{"c":"blue"}`, `"BLUE"`},
		{"point", `{"p":{"x":1,"tags":["red"]}}`, `{"x":0.0,"y":1.0,"tags":["red"]}`},
		{"tree", `{"n":{"value":1,"children":[{"value":2},{"value":3,"children":[{"value":4}]}]}}`, `10`},
		{"when", `{"at":"2026-01-01T00:00:00Z"}`, `"2026-01-01T01:00:00Z"`},
		{"money", `{"amount":"0.1"}`, `"0.2"`},
		{"anything", `{"v":{"a":[null,true,9223372036854775808]}}`, `{"a":[null,true,9223372036854775808]}`},
		{"optional", `{}`, `"None"`},
		{"optional", `{"v":null}`, `"None"`},
		{"defaults", `{"a":1}`, `"1y3"`},
		{"defaults", `{"a":1,"b":"x","c":2}`, `"1x2"`},
		{"extra", `{"a":1,"b":2,"c":3}`, `6`},
		{"typed", `{"rows":[{"size":2},{"name":"n","size":3}]}`, `5`},
		{"later", `{"v":1}`, `2`},
		{"count", `{"n":3}`, `[0,1,2]`},
		{"acount", `{"n":2}`, `[0,1]`},
		{"nothing", `{"v":1}`, `null`},
		// JSON Schema counts 2.0 and 2e0 as integers.
		{"native", `{"i":1.0,"f":2.0,"s":"s","b":true,"l":[1],"d":{"a":1.0}}`, `["int","float","str","bool","list","dict"]`},
		{"tree", `{"n":{"value":1.0,"children":[{"value":2e0}]}}`, `3`},
		{"optional", `{"v":2.0}`, `"2"`},
		{"extra", `{"a":1.0,"b":2.0}`, `3`},
		{"count", `{"n":3.0}`, `[0,1,2]`},
	} {
		w.wantValue("fn:"+c.tool, c.arguments, c.want)
	}
	for _, c := range []struct{ tool, arguments string }{
		{"native", `{}`}, {"colour", `{"c":"green"}`}, {"defaults", `{"a":1,"c":0}`}, {"defaults", `{"a":1,"d":0}`}, {"extra", `{"a":1,"b":"x"}`}, {"tree", `{"n":{"value":1,"children":[{}]}}`},
	} {
		w.wantError("fn:"+c.tool, c.arguments, toolroom.CodeInvalidArguments)
	}
	if r := w.call("fn:picture", `{}`); r.Error != nil || len(r.Content) != 1 || r.Content[0].Type != toolroom.ContentImage || r.Content[0].MIMEType != "image/png" {
		t.Errorf("picture: %+v %v", r.Content, r.Error)
	}
	if r := w.call("fn:raw", `{"data":"YWJj"}`); r.Error != nil || len(r.Content) != 1 || string(r.Content[0].Data) != "cba" {
		t.Errorf("raw: %+v %v", r.Content, r.Error)
	}
}

func TestAGeneratorStreamsItsChunks(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.serve("values.py", valuesSource)
	var chunks []string
	for e := range w.Stream(t.Context(), toolroom.Call{Tool: "fn:count", Arguments: json.RawMessage(`{"n":3}`)}) {
		if e.Kind == toolroom.EventChunk {
			chunks = append(chunks, string(e.Chunk))
		}
	}
	if got := strings.Join(chunks, " "); got != "0 1 2" {
		t.Errorf("chunks %q", got)
	}
}

const failuresSource = `
import os, signal, time
__all__ = ["boom", "nan", "cycle", "surrogate", "obj", "key", "forever", "die", "flood", "fork", "leave", "big", "wrong", "huge", "large"]

class Own(Exception):
    pass

def inner():
    raise Own("the reason")

def boom(x: int = 0):
    inner()

def nan():
    return {"a": [float("nan")]}

def cycle():
    a = []
    a.append(a)
    return a

def surrogate():
    return "\ud800"

def obj():
    return object()

def key():
    return {1: 2}

def forever():
    while True:
        pass

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def flood():
    while True:
        print("x" * 100000)

def fork():
    return os.fork()

def leave():
    raise SystemExit(3)

def big() -> int:
    return 2 ** 63

def wrong() -> int:
    return "text"

def huge():
    return "x" * 100_000_000

def large():
    return "x" * 20_000_000
`

func TestAFailureIsAnErrorThatNamesItsCauseAndNeverAStuckCall(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.serve("failures.py", failuresSource)
	w.wantError("fn:boom", `{}`, toolroom.CodeExecutionFailed, "Own: the reason", "failures.py line 9")
	r := w.call("fn:boom", `{}`)
	trace, _ := r.Error.Details["traceback"].(string)
	if !strings.Contains(trace, "in boom") || !strings.Contains(trace, "in inner") || strings.Contains(trace, "toolroom") {
		t.Errorf("the traceback is not that of the author's own code:\n%s", trace)
	}
	w.wantError("fn:nan", `{}`, toolroom.CodeExecutionFailed, "nan", "a[0]")
	w.wantError("fn:cycle", `{}`, toolroom.CodeExecutionFailed, "holds itself")
	w.wantError("fn:surrogate", `{}`, toolroom.CodeExecutionFailed, "surrogate")
	w.wantError("fn:obj", `{}`, toolroom.CodeExecutionFailed, "object")
	w.wantError("fn:key", `{}`, toolroom.CodeExecutionFailed, "keys must be text")
	w.wantError("fn:die", `{}`, toolroom.CodeExecutionFailed, "not permitted")
	w.wantError("fn:flood", `{}`, toolroom.CodeResourceLimit)
	w.wantError("fn:fork", `{}`, toolroom.CodeExecutionFailed)
	w.wantError("fn:leave", `{}`, toolroom.CodeExecutionFailed, "exit code 3")
	w.wantError("fn:wrong", `{}`, toolroom.CodeInvalidOutput)
	w.wantError("fn:huge", `{}`, toolroom.CodeResourceLimit, "memory")
	w.wantError("fn:large", `{}`, toolroom.CodeExecutionFailed, "larger than")
	w.wantValue("fn:big", `{}`, "9223372036854775808")
	began := time.Now()
	if r := w.Run(t.Context(), toolroom.Call{Tool: "fn:forever", Timeout: 2 * time.Second}); r.Status != toolroom.StatusTimeout || time.Since(began) > 30*time.Second {
		t.Errorf("forever: %s after %s: %v", r.Status, time.Since(began), r.Error)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, cancel)
	if r := w.Run(ctx, toolroom.Call{Tool: "fn:forever"}); r.Status != toolroom.StatusCancelled {
		t.Errorf("a cancelled call: %s: %v", r.Status, r.Error)
	}
}

// The tool stores its secret in every place that it finds, and looks for the secrets of
// others in all of them.
const leakSource = `
import builtins, glob, json, os, sys, tempfile, threading, time

kept = []

def leak(secret: str, wait: float = 0.0) -> list[str]:
    found = list(kept)
    found += [v for k, v in os.environ.items() if k.startswith("LEAK")]
    found += list(getattr(builtins, "leaked", []))
    found += list(getattr(json, "leaked", []))
    found += [t.name for t in threading.enumerate() if t.name.startswith("secret")]
    for folder in {".", "..", "/tmp", "/dev/shm", "/var/tmp", tempfile.gettempdir(), os.environ.get("HOME", "/")}:
        for path in glob.glob(os.path.join(folder, "**", "leak-*"), recursive=True):
            try:
                found.append(open(path).read())
            except OSError:
                pass
    for pid in glob.glob("/proc/[0-9]*"):
        for name in ("environ", "cmdline"):
            try:
                text = open(f"{pid}/{name}", "rb").read().decode("utf-8", "replace")
            except OSError:
                continue
            if "secret-" in text and secret not in text:
                found.append(text)
    kept.append(secret)
    os.environ["LEAK"] = secret
    builtins.leaked = json.leaked = [secret]
    sys.modules["leaked"] = type(sys)(secret)
    threading.Thread(target=time.sleep, args=(5,), name=secret, daemon=True).start()
    for folder in (".", "..", "/tmp", "/dev/shm", "/var/tmp"):
        try:
            open(os.path.join(folder, "leak-" + secret), "w").write(secret)
        except OSError:
            pass
    print("the log of", secret)
    time.sleep(wait)
    return [f for f in found if secret not in f]
`

func TestNothingOfACallIsSeenByTheNextOneOrByOneBeside(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.serve("leak.py", leakSource)
	w.wantValue("fn:leak", `{"secret":"secret-1"}`, `[]`)
	w.wantValue("fn:leak", `{"secret":"secret-2"}`, `[]`)
	var wg sync.WaitGroup
	for _, secret := range []string{"secret-3", "secret-4", "secret-5", "secret-6"} {
		wg.Go(func() {
			r := w.call("fn:leak", `{"secret":"`+secret+`","wait":0.5}`)
			if r.Error != nil || string(r.Value) != "[]" {
				t.Errorf("%s found %s: %v", secret, r.Value, r.Error)
				return
			}
			if r.Execution == nil || strings.TrimSpace(r.Execution.Stdout) != "the log of "+secret {
				t.Errorf("%s: the log is %+v", secret, r.Execution)
			}
		})
	}
	wg.Wait()
}

const contextSource = `# /// script
# [tool.toolroom]
# secrets = ["shop/token"]
# config = {greeting = "hello"}
# ///
from toolroom import Context, tool

@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b

@tool
async def sum_all(values: list[int], context: Context) -> int:
    """Add all, with another tool."""
    total = 0
    for i, v in enumerate(values):
        total = await context.tools.fn.add(a=total, b=v)
        context.progress(i + 1, len(values), "adding")
    context.log("done", total=total)
    return total

@tool
def blocking(ctx) -> int:
    return ctx.tools.fn.add(a=1, b=2) + ctx.call_tool("fn:add", {"a": 3, "b": 4})

@tool
def about(context: Context) -> dict[str, str]:
    return {"greeting": context.config["greeting"], "token": str(len(context.secrets["shop/token"])), "env": context.environment, "call": context.call_id[:5]}

@tool
def tell(context: Context) -> str:
    return context.secrets["shop/token"]

@tool
def undeclared(context: Context) -> str:
    return context.secrets["shop/other"]

@tool
def itself(context: Context) -> int:
    return context.tools.fn.itself()

@tool
def keep(context: Context) -> str:
    handle = context.artifacts.put("a.txt", b"abc", "text/plain")
    return context.artifacts.get(handle).decode()
`

func TestTheContextGivesToolsSecretsArtifactsProgressAndConfig(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	if err := w.Parts().Secrets.Set(t.Context(), secret.Ref{Scope: "shop", Name: "token"}, "top-secret-value"); err != nil {
		t.Fatal(err)
	}
	w.serve("context.py", contextSource)
	w.wantValue("fn:sum_all", `{"values":[1,2,3]}`, "6")
	w.wantValue("fn:blocking", `{}`, "10")
	w.wantValue("fn:about", `{}`, `{"greeting":"hello","token":"16","env":"prod","call":"call_"}`)
	w.wantValue("fn:keep", `{}`, `"abc"`)
	w.wantError("fn:undeclared", `{}`, toolroom.CodeExecutionFailed, "declares no secret")
	if r := w.call("fn:tell", `{}`); strings.Contains(string(r.Value), "top-secret") {
		t.Errorf("the secret is in the result: %s", r.Value)
	}
	w.wantError("fn:itself", `{}`, toolroom.CodeBudgetExceeded, "calls itself")
	var progress, logs int
	for e := range w.Stream(t.Context(), toolroom.Call{Tool: "fn:sum_all", Arguments: json.RawMessage(`{"values":[1,2]}`)}) {
		switch {
		case e.Kind == toolroom.EventProgress && e.Tool == "fn:sum_all":
			progress++
		case e.Kind == toolroom.EventLog && e.Tool == "fn:sum_all":
			logs++
		}
	}
	if progress != 2 || logs != 1 {
		t.Errorf("%d progress events, %d logs", progress, logs)
	}
}

func TestCodeThatCannotBeAToolIsRefusedWithItsPlaceAndTheNextStep(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	for name, c := range map[string]struct {
		source string
		want   []string
	}{
		"it does not parse":       {"def f(x:\n  pass", []string{"a.py:1:6", "never closed"}},
		"no function":             {"X = 1\n", []string{"a.py:1:1", "no function"}},
		"only a private function": {"def _f(x: int): pass\n", []string{"no function"}},
		"two functions":           {"def f(x: int): pass\ndef g(x: int): pass\n", []string{"a.py:2:1", "2 public functions", "f in line 1"}},
		"one defined twice":       {"def f(x: int): pass\ndef f(y: int): pass\n", []string{"a.py:2:1", "twice"}},
		"no type hint":            {"def f(x: int,\n      y): pass\n", []string{"a.py:2:7", "y has no type hint"}},
		"a type without a schema": {"def f(x: complex): pass\n", []string{"a.py:1:7", "complex"}},
		"a return without one":    {"def f(x: int) -> complex: pass\n", []string{"a.py:1:18", "return value"}},
		"a hint of nothing":       {"def f(x: 'Nope'): pass\n", []string{"a.py:1:1", "Nope"}},
		"a dict of numbers":       {"def f(x: dict[int, str]): pass\n", []string{"a.py:1:7", "keys"}},
		"a default of another":    {"def f(x: int = 'a'): pass\n", []string{"a.py:1:7", "default"}},
		"a default of no value":   {"def f(x: list = object()): pass\n", []string{"a.py:1:7", "default"}},
		"any number of values":    {"def f(*x: int): pass\n", []string{"a.py:1:8", "list"}},
		"an import that fails":    {"\nimport nothing_of_this_name\ndef f(x: int): pass\n", []string{"a.py:2:1", "ModuleNotFoundError"}},
		"a top level that fails":  {"def f(x: int): pass\n1 / 0\n", []string{"a.py:2:1", "ZeroDivisionError"}},
		"a top level that ends":   {"import sys\ndef f(x: int): pass\nsys.exit(1)\n", []string{"a.py:3:1", "exit 1"}},
		"a top level that calls":  {"def f(x: int): pass\ncall_tool('fn:x')\n", []string{"a.py:2:1"}},
		"nothing":                 {" \n", []string{"a.py:1:1", "empty"}},
		"no text":                 {"def f(x: int): pass\n\xff", []string{"a.py:2:1", "UTF-8"}},
		"a NUL byte":              {"def f(x: int): pass\n#\x00", []string{"a.py:2:2", "UTF-8"}},
		"too much":                {"#" + strings.Repeat("x", 1<<20), []string{"a.py", "1 MiB"}},
		"a header without end":    {"# /// script\n# dependencies = []\n\ndef f(x: int): pass\n", []string{"a.py:1:1", "no end"}},
		"a header that is none":   {"# /// script\n# dependencies = [\n# ///\ndef f(x: int): pass\n", []string{"a.py:2:1", "TOML"}},
		"a case that is none":     {"# /// script\n# [tool.toolroom]\n# cases = [{name = 'a', arguments = {x = 1}, assert = 'value >'}]\n# ///\ndef f(x: int): pass\n", []string{"case \"a\""}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.push("a.py", c.source)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if code := toolroom.CodeOf(err); code != toolroom.CodeInvalidArguments {
				t.Errorf("code %s", code)
			}
			if toolroom.AsError(err).Hints() == "" {
				t.Errorf("%q says no next step", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error()+" "+toolroom.AsError(err).Hints(), want) {
					t.Errorf("%q is missing in %q", want, err)
				}
			}
		})
	}
	list, err := w.Parts().Releases.List(t.Context(), release.Filter{})
	if err != nil || len(list) != 0 {
		t.Errorf("something was stored: %v %v", list, err)
	}
}

func TestSchemasAndDescriptionsComeFromTheCode(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	for style, doc := range map[string]string{
		"Google": "Pay.\n\n    Longer.\n\n    Args:\n        amount: How much.\n        to (str): Who gets it,\n            by name.\n\n    Returns:\n        The id.\n    ",
		"NumPy":  "Pay.\n\n    Longer.\n\n    Parameters\n    ----------\n    amount : int\n        How much.\n    to : str, optional\n        Who gets it,\n        by name.\n\n    Returns\n    -------\n    str\n        The id.\n    ",
		"reST":   "Pay.\n\n    Longer.\n\n    :param amount: How much.\n    :param str to: Who gets it,\n        by name.\n    :returns: The id.\n    ",
	} {
		pushed, err := w.push("pay.py", "def pay(amount: int, to: str = 'me') -> str:\n    \"\"\""+doc+"\"\"\"\n")
		if err != nil {
			t.Fatalf("%s: %v", style, err)
		}
		spec := pushed[0].Spec
		if spec.Description != "Pay.\n\nLonger." {
			t.Errorf("%s: description %q", style, spec.Description)
		}
		const want = `{"type":"object","properties":{"amount":{"type":"integer","description":"How much."},"to":{"type":"string","default":"me","description":"Who gets it, by name."}},"required":["amount"],"additionalProperties":false}`
		if string(spec.InputSchema) != want {
			t.Errorf("%s: %s", style, spec.InputSchema)
		}
		if !strings.Contains(string(spec.OutputSchema), "The id.") {
			t.Errorf("%s: %s", style, spec.OutputSchema)
		}
	}
}

func TestTheGatesStopWhatBreaksCallersOrCasesUnlessForced(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	s := w.Parts().Releases
	w.serve("scale.py", "def scale(x: int, by: int = 2) -> int:\n    return x * by\n")
	if err := s.AddCase(t.Context(), &release.Case{Tool: "fn:scale", Name: "twice", Arguments: json.RawMessage(`{"x":2}`), Expect: json.RawMessage("4")}); err != nil {
		t.Fatal(err)
	}
	w.wantValue("fn:scale", `{"x":1,"by":3}`, "3")
	if _, err := w.push("scale.py", "def scale(x: int, unit: str) -> int:\n    return x * 3\n"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Release(t.Context(), release.Order{Tool: "fn:scale"}, "ada")
	if toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Fatalf("the release: %v", err)
	}
	for _, want := range []string{"argument unit is now required", "argument by was removed", "called so in the last 30 days by local (1 of 1 calls, for example /by: unknown property", "1 of 1 saved cases fail", "--force"} {
		if !strings.Contains(err.Error()+toolroom.AsError(err).Hints(), want) {
			t.Errorf("%q is missing in %q", want, err)
		}
	}
	w.wantValue("fn:scale", `{"x":1,"by":3}`, "3")
	if _, err := s.Release(t.Context(), release.Order{Tool: "fn:scale", Environment: "test"}, "ada"); err != nil {
		t.Errorf("a release to test: %v", err)
	}
	moved, err := s.Release(t.Context(), release.Order{Tool: "fn:scale", Force: true, Reason: "told them"}, "ada")
	if err != nil || len(moved.Forced) != 2 {
		t.Fatalf("a forced release: %+v %v", moved, err)
	}
	log, err := s.Store.ReleaseLog(t.Context(), "fn:scale", 1)
	if err != nil || len(log[0].Forced) != 2 || log[0].Reason != "told them" {
		t.Errorf("the log: %+v %v", log, err)
	}
	w.wantError("fn:scale", `{"x":1}`, toolroom.CodeInvalidArguments)
	if _, err := s.Rollback(t.Context(), "fn:scale", "", 0, "", "ada"); err != nil {
		t.Fatal(err)
	}
	w.wantValue("fn:scale", `{"x":1,"by":3}`, "3")
	if _, err := s.Rollback(t.Context(), "fn:scale", "", 7, "", "ada"); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("a rollback to a version that is not there: %v", err)
	}
}

func TestASecondPersonMustReleaseIfTheConfigSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "releases: {environments: [staging], conflict: draft, gates: {second_person: true}}\n")
	s := w.Parts().Releases
	if _, err := w.push("a.py", "def a(x: int) -> int:\n    return x\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Release(t.Context(), release.Order{Tool: "fn:a", Environment: "staging"}, "ada"); toolroom.CodeOf(err) != toolroom.CodeConflict || !strings.Contains(err.Error(), "another person") || toolroom.AsError(err).Hint != "let another person release it, or release it with force and a reason" {
		t.Errorf("the author's own release: %v", err)
	}
	if _, err := s.Release(t.Context(), release.Order{Tool: "fn:a"}, "grace"); err != nil {
		t.Fatalf("another person's release: %v", err)
	}
	if _, err := w.push("a.py", "def a(x: int) -> int:\n    return x + 1\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Release(t.Context(), release.Order{Tool: "fn:a"}, "grace"); err != nil {
		t.Fatal(err)
	}
	v, err := s.Pick(t.Context(), "fn:a", 1)
	if err != nil || v.Status != release.StatusDraft {
		t.Errorf("the version that was active: %s %v", v.Status, err)
	}
	if err := s.Deprecate(t.Context(), "fn:a", 1, "wrong", false, "ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Release(t.Context(), release.Order{Tool: "fn:a", Version: 1, Force: true}, "grace"); toolroom.CodeOf(err) != toolroom.CodeConflict || !strings.Contains(err.Error(), "wrong") {
		t.Errorf("the release of a deprecated version: %v", err)
	}
	if err := s.Deprecate(t.Context(), "fn:a", 2, "wrong", false, "ada"); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Errorf("deprecating what is served: %v", err)
	}
}

func TestACanaryServesAShareOfTheCallersAlwaysTheSameOnes(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	s := w.Parts().Releases
	w.serve("a.py", "def a() -> int:\n    return 1\n")
	if _, err := w.push("a.py", "def a() -> int:\n    return 2\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Release(t.Context(), release.Order{Tool: "fn:a", CanaryRule: release.CanaryRule{Weight: 50}}, "ada"); err != nil {
		t.Fatal(err)
	}
	served := map[string]int{}
	for _, who := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		first := ""
		for range 2 {
			r := w.Run(t.Context(), toolroom.Call{Tool: "fn:a", Identity: toolroom.Identity{Subject: who}})
			if first != "" && string(r.Value) != first {
				t.Errorf("%s gets %s and %s", who, first, r.Value)
			}
			first = string(r.Value)
		}
		served[first]++
	}
	if served["1"] == 0 || served["2"] == 0 || len(served) != 2 {
		t.Errorf("versions served: %v", served)
	}
	if _, err := s.Rollback(t.Context(), "fn:a", "", 0, "", "ada"); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"a", "b", "c", "d", "e", "f"} {
		if r := w.Run(t.Context(), toolroom.Call{Tool: "fn:a", Identity: toolroom.Identity{Subject: who}}); string(r.Value) != "1" {
			t.Errorf("after the end of the canary %s gets %s", who, r.Value)
		}
	}
}
