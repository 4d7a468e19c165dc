"""Runs one program over the Toolroom bridge.

The stream is file descriptor TOOLROOM_BRIDGE_FD (3). The first frame is start,
which carries the program; this module answers with done or failed.

Loading modules that few programs need takes longer than most programs run, so
they are loaded when needed, or before there is a program: see preload.
"""

import _ast as ast  # only the nodes
import io
import os
import sys

from bridge_codec import Handle, ValueProblem, encode_frame
from stream import CALL, CHAIN, DESCRIBE, DONE, FAILED, GET, LOG, PROGRESS, PUT, SEARCH, START, Bridge, Output, ToolError, shown
from tools import CheckFailed, CommandResult, Commands, Namespace, Tool, bind, forgotten, shape

loaded = {}


def load(name):
    """Returns a module of the guest's own, even if the program has removed it from sys.modules."""
    if name not in loaded:
        loaded[name] = __import__(name)
    return loaded[name]


def preload():
    """Loads all modules of the guest that programs may need."""
    for name in ("awaited", "check", "function", "returns"):
        load(name)
    for name in ("dataclasses", "datetime", "difflib", "enum", "json", "linecache", "traceback"):
        __import__(name)


class Source:
    """The text of a program, from which tracebacks show lines."""

    def __init__(self, text):
        self.text = text

    def get_source(self, _name=None):
        return self.text


SimpleNamespace = type(sys.implementation)


class Program:
    def __init__(self, bridge, start):
        self.bridge, self.start = bridge, start
        self.name = start.get("name") or "main.py"
        self.asynchronous = False
        self.under_way = []
        self.specs = start.get("tools") or []

    # Calls.

    def call(self, spec, args, kwargs):
        arguments = bind(spec, args, kwargs)
        convert = CommandResult if spec.get("kind") == "cli" else None
        return self.ask(CALL, {"tool": spec["id"], "arguments": arguments}, spec, convert)

    def ask(self, kind, body, what, convert=None):
        """Sends a request to the server. what describes the call in messages: a text, or the tool's spec."""
        try:
            if not self.asynchronous:
                value = self.bridge.ask(kind, body)
                return convert(value) if convert else value
            import asyncio

            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                call = shape(what)
                raise RuntimeError(f"{call} must be awaited inside the event loop: write `await {call}` at the top level or in an async function") from None
            answer = load("awaited").Awaited(loop, sys._getframe(2).f_lineno, what, convert)
            self.bridge.ask_async(kind, body, answer)
        except ValueProblem as e:
            call = shape(what).partition("(")[0]
            raise TypeError(f"the arguments of {call} cannot be sent: {str(e).removeprefix('arguments.')}") from None
        self.under_way.append(answer)
        return answer

    # The program's global variables.

    def namespace(self):
        tools, mcp, cli = Namespace(self, []), Namespace(self, [], "mcp"), Commands(self, [], "cli")
        names = {"tools": tools, "mcp": mcp, "cli": cli}
        for spec in self.specs:
            tool = Tool(self, spec)
            self._place(tools, spec["path"], tool)
            for path in spec.get("globals") or []:
                root = names.get(path[0])
                if root is None:
                    root = names[path[0]] = Namespace(self, [path[0]], spec.get("kind")) if len(path) > 1 else tool
                if len(path) > 1:
                    self._place(root, path[1:], tool, [path[0]])
        if "__toolroom__" in (self.start.get("inputs") or {}):
            load("function").module(self.start["inputs"]["__toolroom__"].get("files") or {})
            names["__toolroom_call__"] = lambda f, given: load("function").call(self, names, f, given)
        names.update(
            call_tool=self.call_tool, run=self.call_tool, search_tools=self.search_tools, describe_tool=self.describe_tool,
            run_chain=self.run_chain, progress=self.progress, log=self.log, ToolError=ToolError, Handle=Handle,
            artifacts=SimpleNamespace(put=self.put, get=self.get), results=SimpleNamespace(get=self.get_result),
        )  # fmt: skip
        return names

    def _place(self, root, path, tool, prefix=()):
        for i, part in enumerate(path[:-1]):
            root = root._members.setdefault(part, Namespace(self, [*prefix, *path[: i + 1]], tool._spec.get("kind")))
        root._members[path[-1]] = tool

    def call_tool(self, tool, arguments=None, /, **kwargs):
        if isinstance(tool, Tool):
            tool = tool._spec["id"]
        if arguments is not None and not isinstance(arguments, dict):
            raise TypeError(f'call_tool takes a dict of arguments: call_tool("{tool}", {{"name": value}})')
        return self.call({"id": tool, "open": True, "parameters": []}, (), {**(arguments or {}), **kwargs})

    def search_tools(self, query, limit=10):
        return self.ask(SEARCH, {"query": query, "limit": limit}, "search_tools(...)")

    def describe_tool(self, tool, level="schema"):
        return self.ask(DESCRIBE, {"tool": tool._spec["id"] if isinstance(tool, Tool) else tool, "level": level}, "describe_tool(...)")

    def run_chain(self, steps):
        return self.ask(CHAIN, {"steps": list(steps)}, "run_chain(...)")

    def progress(self, done, total=0, message=""):
        self.bridge.send(PROGRESS, {"done": done, "total": total, "message": str(message)})

    def log(self, message, level="info", **fields):
        self.bridge.send(LOG, {"level": level, "message": str(message), "fields": fields})

    def put(self, name, data, media_type=""):
        return self.ask(PUT, {"name": name, "media_type": media_type, "data": data}, "artifacts.put(...)")

    def get(self, handle):
        if not self.asynchronous:
            return self._read(handle)
        return self._read_async(handle)

    def _read(self, handle):
        whole = b""
        while True:
            part = self.bridge.ask(GET, {"handle": getattr(handle, "handle", handle), "offset": len(whole), "length": 0})
            whole += part["data"]
            if len(whole) >= part["size"] or not part["data"]:
                return whole

    async def _read_async(self, handle):
        import asyncio

        whole = b""
        while True:
            part = asyncio.get_running_loop().create_future()
            self.bridge.ask_async(GET, {"handle": getattr(handle, "handle", handle), "offset": len(whole), "length": 0}, part)
            part = await part
            whole += part["data"]
            if len(whole) >= part["size"] or not part["data"]:
                return whole

    def get_result(self, handle):
        if not self.asynchronous:
            return read_result(self._read(handle))

        async def later():
            return read_result(await self._read_async(handle))

        return later()

    # Running.

    def run(self, names):
        """Returns the value of the program: of a top-level return, or of its last expression."""
        source = self.start.get("source", "")
        tree = compile(source, self.name, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        # Searching for a word in the text is faster than walking the tree.
        if "await" in source or "async" in source:
            self.asynchronous = any(isinstance(n, (ast.Await, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith)) for n in load("check").nodes(tree))
            load("awaited")  # before the program can interfere
        if "__toolroom__" in names:  # a function awaits its calls if it is asynchronous itself
            self.asynchronous = bool((names["__toolroom__"].get("plan") or {}).get("async"))
        if self.specs or self.start.get("unknown"):
            check = load("check").Check(self)
            if any(root in source for root in check.roots):
                check.check(tree)
        if "return" in source:
            tree = load("returns").caught(tree)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        try:
            if tree.body:
                self._execute(tree, names, "exec")
            value = self._execute(last, names, "eval") if last else None
        except Returned as r:
            value = r.value
        if self.under_way and isinstance(value, load("awaited").Awaited):
            value.awaited = False
        for answer in self.under_way:
            if not answer.awaited:
                raise CheckFailed(forgotten(shape(answer.what)), answer.line)
        return value

    def _execute(self, tree, names, mode):
        code = compile(tree, self.name, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if not code.co_flags & 0x80:  # CO_COROUTINE: no await at the top level
            return eval(code, names)
        if self.loop is None:
            import asyncio

            self.loop = asyncio.new_event_loop()
        return self.loop.run_until_complete(eval(code, names))

    loop = None


def read_result(data):
    import json

    try:
        return json.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")


class Returned(BaseException):
    def __init__(self, value):
        self.value = value


# The outcome of a run.


def describe(error, program):
    """Describes the error in text that can be sent, whatever the methods of the author's classes do."""
    body = failure(error, program)
    for name in ("type", "message", "trace"):
        if name in body:
            body[name] = sendable(body[name])
    if "tool" in body:
        try:
            encode_frame(FAILED, 0, b"", body)
        except Exception:  # the program has changed a member of a tool's error
            del body["tool"]
    return body


SHOWN = 1 << 20  # characters of a text in a failure


def sendable(text):
    return shown(text[:SHOWN])


def message_of(error):
    try:
        return str(error)
    except Exception:
        return "<exception str() failed>"  # as Python's tracebacks do


def failure(error, program):
    body = {"kind": "program", "type": type(error).__name__, "message": message_of(error), "file": program.name}
    if isinstance(error, SyntaxError) and error.filename == program.name:
        import traceback

        body.update(kind="syntax", message=error.msg, line=error.lineno or 0, column=error.offset or 0)
        body["trace"] = "".join(traceback.format_exception_only(type(error), error))
        return body
    if isinstance(error, CheckFailed):
        body.update(kind="check", type="", line=error.line, column=error.column)
        return body
    if isinstance(error, ValueProblem):
        body.update(kind="value", type="")
        return body
    if isinstance(error, MemoryError):
        body.update(kind="limit", limit="memory", message="the program ran out of memory")
    if isinstance(error, KeyboardInterrupt):
        body.update(kind="cancelled")
    if isinstance(error, ToolError):
        body.update(tool=error.body())
    why = withheld(error, program.start.get("withheld") or {}) if isinstance(error, NameError) else ""
    body["message"] += why
    try:
        import traceback
    except ImportError:  # the program has removed it
        return body
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == program.name]
    if frames:
        body.update(line=frames[-1].lineno or 0, column=(getattr(frames[-1], "colno", None) or -1) + 1)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    body["trace"] = "".join([*lines, *traceback.format_exception_only(type(error), error)]).rstrip("\n") + why + "\n"
    return body


def withheld(error, reasons):
    name = getattr(error, "name", None) or message_of(error).partition("'")[2].partition("'")[0]
    return f". {reasons[name]}" if name in reasons else ""


def usage():
    try:
        import resource
    except ImportError:  # not available on WASI
        return {}
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu": int((used.ru_utime + used.ru_stime) * 1000), "memory": used.ru_maxrss * 1024}


# Memory kept free, so that a failure can still be reported when the program has run out of memory.
RESERVE = 4 << 20


def populate(program, kept):
    """Makes the program's module: a new one, or the one that earlier programs of the session have used."""
    module, given = kept.get("module") or type(sys)("__main__"), kept.get("given") or {}
    names = module.__dict__
    for name in [name for name, value in given.items() if names.get(name) is value]:
        del names[name]
    given = {name: value for name, value in program.namespace().items() if name not in names}
    given.update(__file__=program.name, __loader__=Source(program.start.get("source", "")), __toolroom_returned__=Returned)
    kept.update(module=module, given=given)
    names.update(given)
    names.update(program.start.get("inputs") or {})
    if "__toolroom__" in names:  # classes look for their module by its name
        sys.modules[names["__name__"]] = module
    return module


def variables(kept):
    """Returns the names of the variables that the session's programs have made."""
    names, given = kept["module"].__dict__, kept["given"]
    return [n for n, value in names.items() if not n.startswith("__") and given.get(n, names) is not value]


def serve(bridge, prepare=lambda start: None, kept=None):
    """Runs the one program of this process; prepare is called before any of it runs.

    kept is the dict in which a session's state stays, in the memory of this process,
    for the next call.
    """
    kind, _, token, start = bridge.read_frame()
    if kind != START:
        raise SystemExit(f"the server began with kind {kind}")
    bridge.token = token
    prepare(start)
    program = Program(bridge, start)
    if "linecache" in sys.modules:  # it may have cached an earlier program of this name
        sys.modules["linecache"].cache.pop(program.name, None)
    stdout, stderr = Output(bridge, "stdout"), Output(bridge, "stderr")
    sys.stdout, sys.stderr, sys.stdin = stdout, stderr, io.StringIO((start.get("stdin") or b"").decode("utf-8", "replace"))
    kept = {} if kept is None else kept
    module = sys.modules["__main__"] = populate(program, kept)
    sys.argv = [program.name]
    def end(exit_code):
        body = {"exit": exit_code, "usage": usage()}
        if start.get("session"):
            body["variables"] = variables(kept)
        stdout.flush()
        stderr.flush()
        return body

    if start.get("seed") and "random" in start.get("source", ""):
        import random

        random.seed(bytes(start["seed"]))
    reserve = bytes(RESERVE)  # untouched pages, unlike those of a bytearray
    try:
        value = program.run(module.__dict__)
        bridge.send(DONE, {"value": value, **end(0)})  # a value that cannot be sent is the program's failure, not the guest's
    except SystemExit as e:
        if isinstance(e.code, str):
            print(e.code, file=stderr)
        bridge.send(DONE, {"value": None, **end(e.code if isinstance(e.code, int) else int(e.code is not None))})
    except BaseException as e:
        del reserve
        bridge.send(FAILED, {**describe(e, program), **end(1)})


class Packages:
    """The last finder: if no other finder finds a module, it adds the system's packages, whose paths take long to determine."""

    def find_spec(self, name, path=None, target=None):
        if self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        loaded["site"].main()
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target)
            if spec:
                return spec
        return None


def load_site(source):
    """Does the work of the site module, which -S skips because it takes a third of Python's start: at once if the program may notice, otherwise when an import needs it."""
    import site

    loaded["site"] = site
    if any(word in source for word in ("import", "exec", "eval", "compile")):
        site.main()
        return
    sys.meta_path.append(Packages())
    site.setquit()
    site.setcopyright()
    site.sethelper()


def prepare(start):
    """Completes this process for its program, and makes its random numbers differ from those of other copies of this process."""
    if not loaded.get("site"):
        load_site(start.get("source", ""))
    random = sys.modules.get("random")
    if random:
        random.seed()


def begin():
    """Runs the one program of this process."""
    bridge = Bridge(int(os.environ.pop("TOOLROOM_BRIDGE_FD", "3")))
    if os.environ.pop("TOOLROOM_HOLD", ""):
        preload()
        load_site("import")
        bridge._write(b"!")  # everything that programs need is loaded: a snapshot may be taken now, and started many times
    serve(bridge, prepare)
