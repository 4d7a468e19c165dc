"""Starts the guest in CPython for WebAssembly, up to where the image is taken.

The host gives the guest's modules on descriptor 0, and takes from there the
address of the function that runs one program. The look at the clock after that
never returns.
"""

import asyncio
import gc
import importlib.abc
import importlib.util
import json
import marshal
import os
import random
import selectors
import sys
import time


class Modules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The guest's modules, out of what the host gave."""

    def __init__(self, files):
        self.files = files

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name + ".py" in self.files else None

    def exec_module(self, module):
        name = module.__name__ + ".py"
        exec(compile(self.files[name], f"<toolroom>/{name}", "exec", optimize=2), module.__dict__)


class Loop(asyncio.SelectorEventLoop):
    """The event loop, without the socket pair by which other threads would wake it: there are none."""

    def __init__(self):
        super().__init__(selectors.SelectSelector())

    def _make_self_pipe(self):
        pass

    def _close_self_pipe(self):
        pass

    def _write_to_self(self):
        pass


class Policy(asyncio.DefaultEventLoopPolicy):
    _loop_factory = Loop


# What programs do, done before the image is taken: the interpreter fits its
# code to what it has seen, and each page that it writes in a run is a copy.
REHEARSED = [
    "1 + 1",
    "print('x')\nr = tools.a.b(n=1)\nlen([r])",
    "import asyncio\nawait asyncio.gather(tools.a.b(n=1), tools.a.b(n=2))",
    "def f(x):\n    return 1 / x\nf(0)",
]


def marshalled(stream):
    class Bridge(stream.Bridge):
        """Speaks marshal with the worker, which C reads and writes, wherever that holds a value."""

        holds = True

        def send(self, kind, body, id=0):
            if self.holds:
                try:
                    data = marshal.dumps((kind, id, body), 2)
                except ValueError:
                    data = b""
                if 0 < len(data) < stream.MAX_BODY and self._write(len(data).to_bytes(4, "big") + data):
                    return
            super().send(kind, body, id)  # which knows what else there is, and why something cannot leave

        def read_frame(self):
            data = b"" if self.pending else self._read(4096)  # a page, and mostly one frame
            if len(data) - 4 == int.from_bytes(data[:4], "big"):
                data = data[4:]
            else:
                self.pending += data
                data = self._take(int.from_bytes(self._take(4), "big"))
            frame = marshal.loads(data) if data[0] == 0x28 else stream.decode(data)
            if frame[0] == stream.START:
                # Of all that can give its memory away marshal makes bytes: an array is to be refused.
                self.holds = "array" not in frame[3]["source"] and not frame[3].get("session")
            return frame

    return Bridge


def rehearse(guest, stream, bridge):
    class Rehearsal(bridge):
        def __init__(self, source):
            super().__init__(0)
            tool = {"id": "a:b", "path": ["a", "b"], "kind": "go", "parameters": [{"name": "n", "type": "number", "required": True}]}
            data = marshal.dumps((stream.START, 0, b"", {"source": source, "tools": [tool], "limits": {}}), 2)
            self.pending += len(data).to_bytes(4, "big") + data

        def _write(self, data):
            return len(data)

        def ask(self, kind, body):
            self.send(kind, body, 1)
            return 1

        def ask_async(self, kind, body, future):
            self.send(kind, body, 1)
            future.set_result(1)

    before = sys.stdin, sys.stdout, sys.stderr, sys.argv, sys.modules["__main__"]
    for source in REHEARSED * 20:
        guest.serve(Rehearsal(source))
    sys.stdin, sys.stdout, sys.stderr, sys.argv, sys.modules["__main__"] = before


def start():
    text = b""
    while part := os.read(0, 1 << 16):
        text += part
    finder = Modules(json.loads(text))
    sys.meta_path.append(finder)
    asyncio.set_event_loop_policy(Policy())

    import guest
    import stream

    guest.preload()
    guest.RESERVE = 16 << 10  # each page of it is a copy, in every run

    # What programs use most: imported here, it costs them nothing.
    for name in "base64 collections csv dataclasses datetime decimal enum functools hashlib itertools math re statistics string textwrap typing uuid".split():
        __import__(name)
    sys.meta_path.remove(finder)

    # Nothing of the program is to be read from or written to the bridge itself.
    sys.__stdin__ = sys.__stdout__ = sys.__stderr__ = None
    sys.path[:] = [p for p in sys.path if not p.endswith("lib-dynload")]
    bridge = marshalled(stream)
    rehearse(guest, stream, bridge)
    kept = {}

    def serve():
        random.seed()
        guest.serve(bridge(0), kept=kept)

    return serve


serve = start()
# Free memory that runs can use: one that grows past the image is not put back.
bytearray(16 << 20)
gc.collect()
gc.freeze()
os.write(0, str(id(serve)).encode())
time.time()
