"""Forks a process for each program of one owner.

File 3 is a packet socket. Its first packet has the restrictions of each process.
Then {"fork": id, "ahead": bool} comes with a stream on which a new process serves one
program, and {"kill": id} kills it. The end of a process is reported as {"ended": id, ...}.
"""

import ast
import asyncio
import base64
import collections
import concurrent.futures
import copy
import csv
import ctypes
import dataclasses
import datetime
import decimal
import fractions
import functools
import gc
import hashlib
import heapq
import html
import importlib
import itertools
import json
import math
import operator
import os
import random
import re
import resource
import select
import signal
import socket
import statistics
import string
import struct
import sys
import tempfile
import textwrap
import time
import typing
import urllib.parse
import uuid

import guest

guest.preload()

from stream import DONE, HELLO, Bridge, encode_frame

WORK = "/work"
CONTROL, STREAM = 3, 3
READABLE = ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr", "/etc")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# From linux/prctl.h, linux/seccomp.h, linux/landlock.h; the numbers of these
# calls are the same on every architecture.
PR_SET_DUMPABLE, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 4, 22, 2
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT, LANDLOCK_PATH_BENEATH = 444, 445, 446, 1
READ_FILE, WRITE_FILE = 4, 2
# A program reaches its limit of threads before the zygote's user does, so the zygote
# can still fork.
THREADS = 128

libc = ctypes.CDLL(None, use_errno=True)


def checked(result, what):
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


class Sandbox:
    """The restrictions that each forked process applies to itself: Landlock and seccomp."""

    def __init__(self, settings):
        code = base64.b64decode(settings["Filter"])
        self.code = ctypes.create_string_buffer(code, len(code))
        self.program = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(self.code)))
        self.handled, self.own_rights = settings["Handled"], settings["Write"]
        self.ruleset = ctypes.create_string_buffer(struct.pack("=QQQ", self.handled, 0, settings["Scoped"]), 24)
        self.rules = []
        for paths, rights in ((READABLE, settings["Read"]), (DEVICES, READ_FILE | WRITE_FILE)):
            for path in paths:
                if os.path.exists(path):
                    self.rules.append((os.open(path, os.O_PATH | os.O_CLOEXEC), rights))

    def apply(self, work):
        """Restricts the process to its own folder and to computing."""
        rules = checked(libc.syscall(LANDLOCK_CREATE, self.ruleset, 24, 0), "landlock")
        own = os.open(work, os.O_PATH)
        for fd, rights in (*self.rules, (own, self.own_rights)):
            rule = struct.pack("=Qi", rights, fd)
            checked(libc.syscall(LANDLOCK_ADD, rules, LANDLOCK_PATH_BENEATH, rule, 0), "landlock")
        checked(libc.syscall(LANDLOCK_RESTRICT, rules, 0), "landlock")
        os.close(rules)
        checked(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, self.program, 0, 0), "seccomp")


def address_space():
    """Returns the size of this process's mappings, in bytes. A program's memory is added to it."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[0]) * resource.getpagesize()


def limit(start, mapped):
    limits = start["limits"]
    total = mapped + limits["memory"]
    resource.setrlimit(resource.RLIMIT_AS, (total, total))
    if limits["cpu"] > 0:
        seconds = -(-limits["cpu"] // 1000)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    for entry in start.get("env") or []:
        name, _, value = entry.partition("=")
        os.environ[name] = value


class NullBridge:
    """A bridge that discards all frames."""

    def send(self, *_):
        pass


def warm_up():
    """Runs code that every program runs, so that a process has touched its memory before its program arrives."""
    for source, inputs in (
        ("f'{1}'\n[n for n in range(3)]", {}),
        ("def f(x: int) -> int:\n    return x\n__toolroom_call__(f, __toolroom__)", {"__toolroom__": {"arguments": {"x": 1}, "plan": {}}}),
    ):
        program = guest.Program(NullBridge(), {"source": source, "tools": [], "inputs": inputs})
        names = {**program.namespace(), **inputs, "__toolroom_returned__": guest.Returned}
        encode_frame(DONE, 0, b"", {"value": program.run(names)})
    del sys.modules["toolroom"]


# Typical code for packages whose calls touch much of their memory.
PACKAGE_WARM_UPS = {
    "numpy": """
import numpy as np
a = np.array([1.0, 2.0])
(a + 1).sum(), a.mean(), a.max(), a.std(), a[a > 1], a.astype(int), a.tolist(), np.arange(3), np.zeros(2), np.sort(a), np.max([1.0])
""",
    "pandas": """
import pandas as pd
s = pd.Series([1.0, 2.0])
s.mean(), s + 1, s.sum(), s.tolist()
d = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
d["a"].sum(), d.groupby("b")["a"].mean(), d.to_dict("records"), d.head(), d[d["a"] > 1], d.sort_values("a")
""",
}


def warm_up_packages():
    """Runs typical code for the packages that are loaded. A process that waits for its program has time for it."""
    for name, text in PACKAGE_WARM_UPS.items():
        if name in sys.modules:
            try:
                exec(text, {})
            except Exception:
                pass  # another version of the package: programs are only slower


def serve(sandbox, id, ahead, stream, mapped):
    """Runs one program in a forked process, to its end."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    work = f"{WORK}/{id}"
    os.mkdir(work, 0o700)
    os.chdir(work)
    os.environ["HOME"] = os.environ["TMPDIR"] = work
    os.dup2(stream, STREAM, inheritable=False)
    resource.setrlimit(resource.RLIMIT_NPROC, (THREADS, THREADS))
    sandbox.apply(work)
    os.closerange(STREAM + 1, 256)
    for module in ("guest", "bridge_codec", "check", "function", "stream", "tools"):
        sys.modules.pop(module)
    sys.path[0] = work
    random.seed()
    warm_up()
    if ahead:
        warm_up_packages()
    gc.enable()
    bridge = Bridge(STREAM)
    bridge.send(HELLO, {"versions": [1], "guest": f"CPython {sys.version.split()[0]}"})
    guest.serve(bridge, lambda start: limit(start, mapped))


def remove(work):
    """Removes a folder with any content: level by level, because it may be deeper than the longest path."""
    os.chmod(work, 0o700)
    while entries := list(os.scandir(work)):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, 0o700)
            for inner in list(os.scandir(entry.path)):
                if inner.is_dir(follow_symlinks=False):
                    os.chmod(inner.path, 0o700)
                os.rename(inner.path, f"{work}/{uuid.uuid4().hex}")
            os.rmdir(entry.path)
    os.rmdir(work)


class Zygote:
    def __init__(self, control, sandbox):
        self.control, self.sandbox = control, sandbox
        self.ids = {}  # by pid
        self.pids = {}  # by id
        self.mapped = address_space()

    def notify(self, **message):
        self.control.send(json.dumps(message).encode())

    def fork(self, id, ahead, stream):
        try:
            pid = os.fork()
        except OSError as e:
            os.close(stream)
            self.notify(ended=id, error=str(e))
            return
        if pid == 0:
            status = 1
            try:
                serve(self.sandbox, id, ahead, stream, self.mapped)
                status = 0
            finally:
                os._exit(status)
        os.close(stream)
        self.ids[pid], self.pids[id] = id, pid

    def kill(self, id):
        if id in self.pids:  # not reaped yet, so the pid is not reused
            os.kill(self.pids[id], signal.SIGKILL)

    def reap(self):
        while self.ids:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            id = self.ids.pop(pid)
            del self.pids[id]
            code = os.waitstatus_to_exitcode(status)
            self.notify(ended=id, signal=max(-code, 0), code=max(code, 0), cpu=int((used.ru_utime + used.ru_stime) * 1000), memory=used.ru_maxrss * 1024)
            if os.path.isdir(f"{WORK}/{id}"):
                remove(f"{WORK}/{id}")

    def handle_order(self):
        packet, streams, _, _ = socket.recv_fds(self.control, 1 << 16, 1)
        if not packet:
            os._exit(0)
        order = json.loads(packet)
        if "fork" in order:
            self.fork(order["fork"], order["ahead"], streams[0])
        elif "kill" in order:
            self.kill(order["kill"])


def load_layer():
    """Imports the packages of the layer, whose folder and modules are the arguments."""
    global READABLE
    if len(sys.argv) < 2:
        return
    folder, *modules = sys.argv[1:]
    READABLE = (*READABLE, folder)
    sys.path.insert(1, folder)
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception:
            pass  # the program that imports it gets the error


def main():
    load_layer()
    control = socket.socket(fileno=CONTROL)
    control.set_inheritable(False)
    sandbox = Sandbox(json.loads(control.recv(1 << 16)))
    zygote = Zygote(control, sandbox)
    checked(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")
    warm_up()
    warm_up_packages()
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    gc.disable()
    gc.collect()
    gc.freeze()
    zygote.notify(ready=sys.version.split()[0])
    while True:
        ready, _, _ = select.select([control, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            zygote.reap()
        if control in ready:
            zygote.handle_order()


main()
