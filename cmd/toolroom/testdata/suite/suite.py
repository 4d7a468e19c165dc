# /// script
# [tool.toolroom]
# secrets = ["shop/token"]
# config = {greeting = "hello"}
# limits = {memory_bytes = 300000000}
# ///
import glob
import os
import sys
from typing import Any, Literal

from toolroom import Context

__all__ = ["echo", "defaults", "picture", "boom", "nan", "cycle", "surrogate", "wrong", "big", "huge", "count", "add", "sum_all", "itself", "forever", "token_length", "tell", "undeclared", "about", "report", "keep", "leak", "flood", "hog"]

kept = []


class Own(Exception):
    pass


def inner():
    raise Own("the reason")


def echo(v: Any) -> Any:
    return v


def defaults(a: int, b: Literal["x", "y"] = "y") -> str:
    return f"{a}{b}"


def picture() -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"x" * 10


def boom():
    inner()


def nan():
    return {"a": [float("nan")]}


def cycle():
    a = []
    a.append(a)
    return a


def surrogate():
    return "\ud800"


def wrong() -> int:
    return "text"


def big() -> int:
    return 2**63


def huge():
    return "x" * 100_000_000


def count(n: int) -> list[int]:
    for i in range(n):
        yield i


def add(a: int, b: int) -> int:
    return a + b


async def sum_all(values: list[int], context: Context) -> int:
    total = 0
    for v in values:
        total = await context.tools.fn.add(a=total, b=v)
    return total


def itself(context: Context) -> int:
    return context.tools.fn.itself()


def forever():
    while True:
        pass


def token_length(context: Context) -> int:
    return len(context.secrets["shop/token"])


def tell(context: Context) -> str:
    return context.secrets["shop/token"]


def undeclared(context: Context) -> str:
    return context.secrets["shop/other"]


def about(context: Context) -> dict[str, str]:
    return {"greeting": context.config["greeting"], "env": context.environment, "call": context.call_id[:5]}


def report(context: Context):
    context.progress(1, 2, "half")
    context.log("careful", "warning")


def keep(context: Context) -> str:
    return context.artifacts.get(context.artifacts.put("a.txt", b"abc", "text/plain")).decode()


def leak(secret: str) -> list[str]:
    print("the log of", secret, file=sys.stderr)
    found = list(kept) + [v for k, v in os.environ.items() if k == "LEAK"]
    for folder in (".", "..", "/tmp", "/dev/shm", "/var/tmp", os.environ.get("HOME", "/")):
        found += [open(path).read() for path in glob.glob(os.path.join(folder, "leak-*"))]
        try:
            open(os.path.join(folder, "leak-" + secret), "w").write(secret)
        except OSError:
            pass
    kept.append(secret)
    os.environ["LEAK"] = secret
    return [f for f in found if secret not in f]


def flood():
    while True:
        print("x" * 100000)


def hog():
    kept = []
    while True:
        kept.append(b"x" * 1_000_000)
