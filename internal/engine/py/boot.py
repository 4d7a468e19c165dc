"""Starts the guest in CPython for WebAssembly, until the image is taken.

The host writes the guest's modules to descriptor 0, and reads from it the
address of the function that runs one program. The call of time.time after that
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
    """Imports the guest's modules from the files that the host sent."""

    def __init__(self, files):
        self.files = files

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name + ".py" in self.files else None

    def exec_module(self, module):
        name = module.__name__ + ".py"
        exec(compile(self.files[name], f"<toolroom>/{name}", "exec", optimize=2), module.__dict__)


class Loop(asyncio.SelectorEventLoop):
    """The event loop, without the socket pair with which other threads wake it: there are no threads."""

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


# Typical programs, run before the image is taken: the interpreter specializes its
# code to what it has run, and each page that it writes during a run is a copy.
WARM_UP_PROGRAMS = [
    "1 + 1",
    "print('x')\nr = tools.a.b(n=1)\nlen([r])",
    "import asyncio\nawait asyncio.gather(tools.a.b(n=1), tools.a.b(n=2))",
    "def f(x):\n    return 1 / x\nf(0)",
]


def marshal_bridge(stream):
    class Bridge(stream.Bridge):
        """Sends and receives marshal, which is implemented in C, if it can represent a value."""

        use_marshal = True

        def send(self, kind, body, id=0):
            if self.use_marshal:
                try:
                    data = marshal.dumps((kind, id, body), 2)
                except ValueError:
                    data = b""
                if 0 < len(data) < stream.MAX_BODY and self._write(len(data).to_bytes(4, "big") + data):
                    return
            super().send(kind, body, id)  # which handles all other values, and reports those that cannot leave

        def read_frame(self):
            data = b"" if self.pending else self._read(4096)  # one page, which usually holds one frame
            if len(data) - 4 == int.from_bytes(data[:4], "big"):
                data = data[4:]
            else:
                self.pending += data
                data = self._take(int.from_bytes(self._take(4), "big"))
            frame = marshal.loads(data) if data[0] == 0x28 else stream.decode(data)
            if frame[0] == stream.START:
                # marshal writes any object with a buffer as bytes, but an array must be rejected.
                self.use_marshal = "array" not in frame[3]["source"] and not frame[3].get("session")
            return frame

    return Bridge


def warm_up(guest, stream, bridge):
    class WarmUpBridge(bridge):
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
    for source in WARM_UP_PROGRAMS * 20:
        guest.serve(WarmUpBridge(source))
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
    guest.RESERVE = 16 << 10  # each of its pages is copied in every run

    # The most used modules: programs import them at no cost.
    for name in "base64 collections csv dataclasses datetime decimal enum functools hashlib itertools math re statistics string textwrap typing uuid".split():
        __import__(name)
    sys.meta_path.remove(finder)

    # The program must not read from or write to the bridge itself.
    sys.__stdin__ = sys.__stdout__ = sys.__stderr__ = None
    sys.path[:] = [p for p in sys.path if not p.endswith("lib-dynload")]
    bridge = marshal_bridge(stream)
    warm_up(guest, stream, bridge)
    kept = {}

    def serve():
        random.seed()
        guest.serve(bridge(0), kept=kept)

    return serve


serve = start()
# Free memory that runs can use: an instance whose memory grows beyond the image's is not reused.
bytearray(16 << 20)
gc.collect()
gc.freeze()
os.write(0, str(id(serve)).encode())
time.time()
