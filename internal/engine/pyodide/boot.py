"""Starts the guest in Pyodide, until the snapshot is taken.

The global variable files holds the guest's files. serve runs one program, with
the host functions of main.mjs.
"""

import asyncio
import gc
import importlib.abc
import importlib.util
import json
import random
import selectors
import sys
import time
import warnings

import pyodide
from pyodide.ffi import to_js


class Modules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the guest's modules from the files that the host sent."""

    def __init__(self, files):
        self.files = files

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name + ".py" in self.files else None

    def exec_module(self, module):
        name = module.__name__ + ".py"
        exec(compile(self.files[name], f"<toolroom>/{name}", "exec", optimize=2), module.__dict__)


class Selector(selectors.SelectSelector):
    """Waits for the bridge, which is the only stream, or for a time."""

    def select(self, timeout=None):
        wait = float("inf") if timeout is None else max(0, timeout * 1000)
        if not self.get_map():
            host.sleep(wait)
            return []
        return [(key, key.events) for key in self.get_map().values()] if host.wait(wait) else []


class Loop(asyncio.SelectorEventLoop):
    """The event loop, without the socket pair with which other threads wake it: there are no threads."""

    def __init__(self):
        super().__init__(Selector())

    def _make_self_pipe(self):
        pass

    def _close_self_pipe(self):
        pass

    def _write_to_self(self):
        pass


class Policy(asyncio.events._AbstractEventLoopPolicy):
    def new_event_loop(self):
        return Loop()


host = None  # the host functions of main.mjs, once the program runs


def start(files):
    finder = Modules(files)
    sys.meta_path.append(finder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asyncio.set_event_loop_policy(Policy())
    asyncio._set_running_loop(None)  # Pyodide's own loop returns to JavaScript between its steps

    import guest
    import stream

    guest.preload()

    # The most used modules: programs import them at no cost.
    for name in "base64 collections csv dataclasses datetime decimal enum functools hashlib itertools math re statistics string textwrap typing uuid".split():
        __import__(name)
    sys.meta_path.remove(finder)

    class Bridge(stream.Bridge):
        """The stream, read and written with the host functions."""

        def _write(self, data):
            host.write(to_js(bytes(data)))
            return len(data)

        def _read(self, size):
            return host.take(size).to_bytes()

    def serve(host_functions):
        global host
        host = host_functions
        time.sleep = lambda seconds: host.sleep(seconds * 1000)  # Pyodide's keeps the processor busy
        random.seed()
        bridge = Bridge(0)
        bridge.send(stream.HELLO, {"versions": [1], "guest": f"Pyodide {pyodide.__version__}, CPython {sys.version.split()[0]}"})

        def prepare(begin):
            host.limit(begin["limits"]["memory"])
            frames = [stream.encode_frame(stream.PRINT, 0, bridge.token, {"stream": name, "text": ""}) for name in ("stdout", "stderr")]
            too_deep = {"kind": "program", "type": "RecursionError", "message": "maximum recursion depth exceeded", "exit": 1}
            frames.append(stream.encode_frame(stream.FAILED, 0, bridge.token, too_deep))
            host.frames(*map(to_js, frames))

        guest.serve(bridge, prepare)

    return serve


serve = start(json.loads(files))
gc.collect()
