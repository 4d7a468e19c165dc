"""Build the source distribution on stdin (PEP 517), in a sandbox.

Prints the requirements of the build as JSON, or the name of the wheel, a newline and the wheel.
"""

import importlib
import io
import json
import os
import site
import sys
import tarfile
import zipfile

task = json.loads(sys.argv[1])
del sys.argv[1:]
out = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # what the build prints is no result
archive = io.BytesIO(sys.stdin.buffer.read())
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

# What is built may name its folder, and must be the same when it is built again.
os.mkdir("/tmp/build")
os.chdir("/tmp/build")
os.mkdir("source")
os.mkdir("wheel")
if archive.getvalue()[:2] == b"PK":
    with zipfile.ZipFile(archive) as opened:
        opened.extractall("source")
else:
    with tarfile.open(fileobj=archive) as opened:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        opened.extractall("source", **safe)
del archive
target = os.path.abspath("wheel")
tops = os.listdir("source")
if len(tops) != 1:
    sys.exit("the source distribution has %d folders, not one" % len(tops))
os.chdir(os.path.join("source", tops[0]))

if os.path.isdir(task["layer"]):
    site.addsitedir(task["layer"])
    os.environ["PYTHONPATH"] = task["layer"]
for folder in reversed(task["path"] or []):
    sys.path.insert(0, os.path.abspath(folder))
name, _, attribute = task["backend"].partition(":")
backend = importlib.import_module(name)
for part in filter(None, attribute.split(".")):
    backend = getattr(backend, part)

if task["mode"] == "requires":
    requires = getattr(backend, "get_requires_for_build_wheel", lambda settings: [])
    out.write(json.dumps(list(requires(None))).encode())
else:
    made = backend.build_wheel(target, None, None)
    with open(os.path.join(target, os.path.basename(made)), "rb") as wheel:
        out.write(os.path.basename(made).encode() + b"\n" + wheel.read())
out.flush()
