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


def rehearse(guest, stream):
    class Rehearsal(stream.Bridge):
        def __init__(self, source):
            super().__init__(0)
            self.source = source

        def read_frame(self):
            tool = {"id": "a:b", "path": ["a", "b"], "kind": "go", "parameters": [{"name": "n", "type": "number", "required": True}]}
            frame = stream.encode_frame(stream.START, 0, b"", {"source": self.source, "tools": [tool], "limits": {}})
            return stream.decode(frame[4:])

        def send(self, kind, body, id=0):
            stream.encode_frame(kind, id, self.token, body)

        def ask(self, kind, body):
            self.send(kind, body, 1)
            return 1

        def ask_async(self, kind, body):
            self.send(kind, body, 1)
            future = asyncio.get_running_loop().create_future()
            future.set_result(1)
            return future

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

    guest.RESERVE = 64 << 10  # each page of it is a copy, in every run

    # What programs use most: imported here, it costs them nothing.
    for name in "base64 collections csv dataclasses datetime decimal enum functools hashlib itertools math re statistics string textwrap typing uuid".split():
        __import__(name)
    sys.meta_path.remove(finder)

    # Nothing of the program is to be read from or written to the bridge itself.
    sys.__stdin__ = sys.__stdout__ = sys.__stderr__ = None
    sys.path[:] = [p for p in sys.path if not p.endswith("lib-dynload")]
    rehearse(guest, stream)
    kept = {}

    def serve():
        random.seed()
        guest.serve(stream.Bridge(0), kept=kept)

    return serve


serve = start()
# Free memory that runs can use: one that grows past the image is not put back.
bytearray(16 << 20)
gc.collect()
gc.freeze()
os.write(0, str(id(serve)).encode())
time.time()
