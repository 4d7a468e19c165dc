"""A guest for Python programs, written from docs/bridge.md and nothing else.

It runs one program and isolates nothing itself; the sandbox around it does.
Start it with the path of a Unix socket that leads to the server.
"""

import ast
import asyncio
import concurrent.futures
import datetime
import itertools
import json
import math
import os
import socket
import struct
import sys
import threading
import traceback

HELLO, CALL, CHAIN, SEARCH, DESCRIBE, PUT, GET, PRINT, PROGRESS, LOG, DONE, ERROR = 1, 10, 11, 12, 13, 14, 15, 20, 21, 22, 30, 31
START, RESULT, CANCEL, REFUSE = 32, 33, 34, 35
MAX_NESTING, MAX_FRAME = 100, 16 << 20


class Handle:
    def __init__(self, fields):
        self.handle, self.media_type, self.size = fields["handle"], fields["media_type"], fields["size"]


class NoValue(TypeError):
    """A value cannot be sent over the bridge; the message says which part."""


# The part of CBOR that the bridge uses.


def head(major, n):
    for code, size in ((24, "B"), (25, ">H"), (26, ">I"), (27, ">Q")):
        if n < 24:
            return bytes([major << 5 | n])
        if n < 1 << 8 * struct.calcsize(size):
            return bytes([major << 5 | code]) + struct.pack(size, n)


def encode(v, path="value", depth=0):
    if depth > MAX_NESTING:
        raise NoValue(f"{path[:40]}… nests too deep, or contains itself")
    if v is None or v is True or v is False:
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[v]
    if isinstance(v, int):
        n, major = (v, 0) if v >= 0 else (-1 - v, 1)
        if n < 1 << 64:
            return head(major, n)
        return bytes([0xC2 + major]) + encode(n.to_bytes((n.bit_length() + 7) // 8, "big"))
    if isinstance(v, float):
        if not math.isfinite(v):
            raise NoValue(f"{path} is {v}, which JSON cannot represent")
        return struct.pack(">Bd", 0xFB, v)
    if isinstance(v, str):
        try:
            text = v.encode()
        except UnicodeEncodeError:
            raise NoValue(f"{path} contains half a surrogate pair, which UTF-8 cannot represent") from None
        return head(3, len(text)) + text
    if isinstance(v, bytes):
        return head(2, len(v)) + v
    if isinstance(v, datetime.datetime):
        return b"\xc0" + encode(v.isoformat())
    if isinstance(v, Handle):
        return head(6, 39) + encode(vars(v))
    if isinstance(v, (list, tuple)):
        return head(4, len(v)) + b"".join(encode(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(v))
    if isinstance(v, dict) and all(isinstance(k, str) for k in v):
        return head(5, len(v)) + b"".join(encode(k, path) + encode(item, f"{path}.{k}", depth + 1) for k, item in v.items())
    raise NoValue(f"{path} is a {type(v).__name__}, which cannot leave the program")


def decode(data, at=0):
    major, n = data[at] >> 5, data[at] & 31
    at += 1
    if major == 7:
        if n == 27:
            return struct.unpack_from(">d", data, at)[0], at + 8
        return {20: False, 21: True, 22: None, 23: None}[n], at
    if n >= 24:
        size = 1 << n - 24
        n, at = int.from_bytes(data[at : at + size], "big"), at + size
    if major < 2:
        return (n if major == 0 else -1 - n), at
    if major == 2:
        return data[at : at + n], at + n
    if major == 3:
        return data[at : at + n].decode(), at + n
    if major == 4:
        items = []
        for _ in range(n):
            item, at = decode(data, at)
            items.append(item)
        return items, at
    if major == 5:
        fields = {}
        for _ in range(n):
            key, at = decode(data, at)
            fields[key], at = decode(data, at)
        return fields, at
    inner, at = decode(data, at)
    if n == 0:
        return datetime.datetime.fromisoformat(inner.replace("Z", "+00:00")), at
    if n == 39:
        return Handle(inner), at
    magnitude = int.from_bytes(inner, "big")
    return (magnitude if n == 2 else -1 - magnitude), at


class Bridge:
    """The stream to the server, and the one run on it."""

    def __init__(self, stream):
        self.stream, self.sending = stream, threading.Lock()
        self.ids, self.open = itertools.count(1), {}
        token = bytes.fromhex(os.environ.get("TOOLROOM_BRIDGE_TOKEN", ""))
        self.token = token
        self.send(HELLO, {"versions": [1], "guest": "of-the-page"})
        kind, _, self.token, self.start = self.receive()
        if kind == REFUSE:
            sys.exit(self.start["reason"])
        threading.Thread(target=self.listen, daemon=True).start()

    def send(self, kind, body, id=0):
        frame = encode([kind, id, self.token, body], depth=-2)
        if len(frame) > MAX_FRAME:
            raise NoValue(f"it has {len(frame)} bytes, the limit is {MAX_FRAME}")
        with self.sending:
            self.stream.sendall(struct.pack(">I", len(frame)) + frame)

    def receive(self):
        def exactly(n):
            data = bytearray()
            while len(data) < n:
                part = self.stream.recv(n - len(data))
                if not part:
                    os._exit(0)  # the server has closed the stream
                data += part
            return bytes(data)

        return decode(exactly(struct.unpack(">I", exactly(4))[0]))[0]

    def listen(self):
        while True:
            kind, id, _, body = self.receive()
            if kind == CANCEL:
                self.send(ERROR, {"kind": "cancelled", "message": body["reason"]})
                os._exit(0)
            if kind == RESULT and id in self.open:
                self.open.pop(id).set_result(body)

    def ask(self, kind, body):
        """Sends a request and returns a future of the answer. Open requests have different ids."""
        id, answer = next(self.ids), concurrent.futures.Future()
        self.open[id] = answer
        self.send(kind, body, id)
        return answer


class ToolError(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.error = error
        self.__dict__.update({k: error.get(k) for k in ("code", "phase", "tool", "retryable", "hint", "details")})


class ToolLookupError(ToolError, LookupError):
    pass


class ToolValueError(ToolError, ValueError):
    pass


ERRORS = {"tool_not_found": ToolLookupError, "invalid_arguments": ToolValueError}


def opened(body):
    if body.get("error"):
        raise ERRORS.get(body["error"]["code"], ToolError)(body["error"])
    return body.get("value")


class Command(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def text(self):
        return self["stdout"]

    def lines(self):
        return self.text().splitlines()

    def json(self):
        return json.loads(self.text())


class Path:
    """tools.math.add: calls the tool of that path, or lets the server decide."""

    def __init__(self, program, *path):
        self._program, self._path = program, path

    def __getattr__(self, name):
        return Path(self._program, *self._path, name)

    __getitem__ = __getattr__

    def _id(self):
        tool = self._program.tools.get(self._path)
        # The server decides about other paths: a namespace and a name below tools, mcp or cli.
        return tool["id"] if tool else ":".join(self._path[1:])

    def __call__(self, *words, **named):
        if self._path == ("cli",):  # cli("docker-compose")
            return Path(self._program, "cli", *words)
        tool = self._program.tools.get(self._path) or {}
        if len(words) == 1 and isinstance(words[0], dict):
            named, words = {**words[0], **named}, ()
        if tool.get("kind") == "cli" or self._path[0] == "cli":
            for i, word in enumerate(words):
                if not isinstance(word, (str, int, float)):
                    raise TypeError(f"word {i + 1} of {self._id()} is neither text nor a number")
            words = [str(word) for word in words]
            return self._program.call(self._id(), {**named, **({"_": list(words)} if words else {})}, Command)
        for parameter, word in zip(tool.get("parameters", []), words):
            named[parameter["name"]] = word
        return self._program.call(self._id(), named)


class Part:
    """The members of artifacts and results."""

    def __init__(self, **members):
        self.__dict__.update(members)


class Program:
    def __init__(self, bridge):
        self.bridge, start = bridge, bridge.start
        self.source, self.name = start["source"], start["name"]
        self.tools = {("tools", *t["path"]): t for t in start["tools"]}
        self.tools.update({tuple(path): t for t in start["tools"] for path in t["globals"]})
        self.withheld, self.unknown, self.asynchronous = start["withheld"], start["unknown"], False
        self.names = {root: Path(self, root) for root in {"tools", "mcp", "cli", *(path[0] for path in self.tools)}}
        self.names |= {
            "__name__": "__main__", "ToolError": ToolError,
            "call_tool": lambda tool, values=None, **named: self.call(self.id_of(tool), {**(values or {}), **named}),
            "run_chain": lambda steps: self.ask(CHAIN, {"steps": steps}),
            "search_tools": lambda query, limit=10: self.ask(SEARCH, {"query": query, "limit": limit}),
            "describe_tool": lambda tool, level="schema": self.ask(DESCRIBE, {"tool": self.id_of(tool), "level": level}),
            "artifacts": Part(put=self.put, get=lambda handle: self.whole(handle)[0]), "results": Part(get=self.result),
            "progress": lambda done, total=0, message="": self.tell(PROGRESS, {"done": float(done), "total": float(total), "message": message}),
            "log": lambda message, level="info", **fields: self.tell(LOG, {"level": level, "message": message, "fields": fields}),
        }  # fmt: skip
        self.names["run"] = self.names["call_tool"]
        self.names |= start["inputs"]

    def id_of(self, tool):
        return tool._id() if isinstance(tool, Path) else tool

    def ask(self, kind, body, convert=None):
        def value(answer):
            result = opened(answer)
            return convert(result) if convert else result

        answer = self.bridge.ask(kind, body)
        if not self.asynchronous:
            return value(answer.result())

        async def later():
            return value(await asyncio.wrap_future(answer))

        return later()

    def call(self, tool, arguments, convert=None):
        return self.ask(CALL, {"tool": tool, "arguments": arguments}, convert)

    def tell(self, kind, body):
        self.bridge.send(kind, body)

    def put(self, name, data, media_type=""):
        try:
            return self.ask(PUT, {"name": name, "media_type": media_type, "data": data})
        except NoValue as e:
            raise TypeError(f"artifacts.put: {e}") from None

    def whole(self, handle):
        handle, data = getattr(handle, "handle", handle), b""
        while True:
            part = opened(self.bridge.ask(GET, {"handle": handle, "offset": len(data), "length": 0}).result())
            data += part["data"]
            if len(data) >= part["size"] or not part["data"]:
                return data, part["media_type"]

    def result(self, handle):
        data, media_type = self.whole(handle)
        return json.loads(data) if "json" in media_type else data.decode()

    # The run.

    def check(self, tree):
        """Refuses calls of unknown tools before the program runs."""
        bound = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)} | {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for n in ast.walk(tree):
            if not isinstance(n, ast.Call):
                continue
            root, *below = ast.unparse(n.func).split(".")
            path, reason = (root, *below), self.unknown.get(".".join([root, *below[:1]]))
            if path in (("call_tool",), ("run",)) and n.args and isinstance(n.args[0], ast.Constant):
                reason = self.unknown.get(n.args[0].value)
            siblings = [".".join(p) for p in self.tools if p[:-1] == path[:-1]]
            if siblings and len(path) > 1 and path not in self.tools and root != "cli":
                reason = f"there is no {'.'.join(path)}: there is {', '.join(siblings)}"
            if reason and root not in bound:
                return {"kind": "check", "message": reason, "line": n.lineno, "column": n.col_offset + 1}

    def run(self):
        try:
            tree = ast.parse(self.source, self.name)
        except SyntaxError as e:
            return ERROR, {"kind": "syntax", "type": "SyntaxError", "message": str(e.msg), "line": e.lineno, "column": e.offset or 0}
        if refused := self.check(tree):
            return ERROR, refused
        self.asynchronous = any(isinstance(n, (ast.Await, ast.AsyncFor, ast.AsyncWith)) for n in ast.walk(tree))
        # The program becomes the body of a function that returns its last value.
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = tree.body[-1]
            tree.body[-1] = ast.copy_location(ast.Return(last.value), last)
        shell = ast.parse(f"{'async ' * self.asynchronous}def program(): pass")
        shell.body[0].body = tree.body or shell.body[0].body
        sys.stdout, sys.stderr = Stream(self, "stdout"), Stream(self, "stderr")
        try:
            exec(compile(ast.fix_missing_locations(shell), self.name, "exec"), self.names)
            value = self.names["program"]()
            return DONE, {"value": asyncio.run(value) if self.asynchronous else value}
        except BaseException as e:
            return ERROR, self.failure(e)

    def failure(self, e):
        frames = [f for f in traceback.extract_tb(e.__traceback__) if f.filename == self.name]
        trace = "Traceback (most recent call last):\n" + "".join(f'  File "{f.filename}", line {f.lineno}, in {f.name}\n' for f in frames[-20:])
        message = str(e)
        if isinstance(e, NameError):
            message = self.withheld.get(getattr(e, "name", None), message)
        message, trace = (shown(t[:100_000]) for t in (message, trace))  # an error must always be sent
        body = {"kind": "program", "type": type(e).__name__, "message": message, "line": frames[-1].lineno if frames else 0, "trace": trace + f"{type(e).__name__}: {message}"}
        return body | ({"tool": e.error} if isinstance(e, ToolError) else {})


def shown(text):
    """Returns text for people, with U+FFFD instead of half surrogate pairs."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Stream:
    def __init__(self, program, name):
        self.program, self.name = program, name

    def write(self, text):
        self.program.tell(PRINT, {"stream": self.name, "text": shown(text)})
        return len(text)

    def flush(self):
        pass


def main():
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(sys.argv[1])
    bridge = Bridge(stream)
    kind, body = Program(bridge).run()
    try:
        bridge.send(kind, body)
    except NoValue as e:
        bridge.send(ERROR, {"kind": "value", "type": "TypeError", "message": str(e)})
    os._exit(0)


main()
