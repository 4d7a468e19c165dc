"""Calls a function that is a tool: makes objects of its arguments, gives it its context, and makes a value of what it returns."""

import sys
import types

from bridge_codec import Handle, ValueProblem
from stream import LOG, ToolError

CONTENT = "$toolroom.content"
CHUNKS = 1 << 20  # of one generator


class Image:
    """An image, or other bytes with a media type, as the result of a tool."""

    def __init__(self, data, media_type="image/png"):
        self.data, self.media_type = bytes(data), media_type


class Secrets(dict):
    """The secrets that the tool declares, by name."""

    def __missing__(self, name):
        raise KeyError(f"the tool declares no secret {name!r}: add it to secrets in the header or in tool.yaml")


class Context:
    """What a function may use besides its arguments."""

    def __init__(self, names, given):
        self.tools, self.call_tool = names["tools"], names["call_tool"]
        self.artifacts, self.progress, self.log = names["artifacts"], names["progress"], names["log"]
        self.secrets = Secrets(given.get("secrets") or {})
        self.config = given.get("config") or {}
        self.call_id, self.environment, self.caller = given.get("call", ""), given.get("environment", ""), given.get("caller", "")


def tool(function=None, **_):
    """Marks a function as a tool."""
    return function if function is not None else lambda f: f


class Siblings:
    """Finds the other files of the tool's folder."""

    def __init__(self, files):
        self.files = files

    def find_spec(self, name, path=None, target=None):
        import importlib.machinery

        for file, package in ((name.replace(".", "/") + ".py", False), (name.replace(".", "/") + "/__init__.py", True)):
            if file in self.files:
                return importlib.machinery.ModuleSpec(name, self, origin=file, is_package=package)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, made):
        origin = made.__spec__.origin
        made.__file__ = origin
        exec(compile(self.files[origin], origin, "exec", dont_inherit=True), made.__dict__)


def module(files):
    """Makes the module toolroom, which functions may import, and lets them import the other files of the tool."""
    if files:
        sys.meta_path.append(Siblings(files))
    made = types.ModuleType("toolroom")
    made.Context, made.Image, made.ToolError, made.Handle, made.tool = Context, Image, ToolError, Handle, tool
    sys.modules["toolroom"] = made


def call(program, names, function, given):
    """Calls the function; what it returns is the value, or an awaitable of it."""
    arguments, plan = given["arguments"], given.get("plan") or {}
    if plan.get("convert"):
        arguments = converted(function, arguments, plan["convert"])
    positional = [arguments.pop(name) for name in plan.get("positional") or [] if name in arguments]
    if plan.get("context"):
        arguments[plan["context"]] = Context(names, given)
    result = function(*positional, **arguments)
    if hasattr(result, "__await__"):
        return awaited(program, result)
    if hasattr(result, "__anext__"):
        return streamed(program, result)
    return returned(program, result)


async def awaited(program, result):
    return returned(program, await result)


async def streamed(program, results):
    chunks = []
    async for chunk in results:
        chunks.append(emit(program, chunk, len(chunks)))
    return chunks


def returned(program, result):
    if isinstance(result, types.GeneratorType):
        return [emit(program, chunk, i) for i, chunk in enumerate(result)]
    return plain(result)


def emit(program, chunk, place):
    if place >= CHUNKS:
        raise ValueProblem(f"the generator yields more than {CHUNKS} chunks")
    chunk = plain(chunk)
    program.bridge.send(LOG, {"level": "chunk", "message": "", "fields": {"value": chunk}})
    return chunk


def plain(value):
    """Turns objects of packages into what the bridge carries."""
    kind = type(value)
    if kind in (int, float, str, bool, type(None)):
        return value
    if kind is bytes or isinstance(value, Image):
        return {CONTENT: [part(value)]}
    if isinstance(value, (list, tuple)) and any(isinstance(item, Image) for item in value):
        return {CONTENT: [part(item) for item in value]}
    dump = getattr(value, "model_dump", None)
    if dump and hasattr(kind, "model_fields"):
        return dump(mode="json")
    if kind is dict:
        return {key: plain(item) for key, item in value.items()} if any(hasattr(item, "model_dump") for item in value.values()) else value
    if kind is list and any(hasattr(item, "model_dump") for item in value):
        return [plain(item) for item in value]
    return value


def part(value):
    if isinstance(value, Image):
        return {"data": value.data, "media_type": value.media_type}
    if isinstance(value, bytes):
        return {"data": value, "media_type": ""}
    return {"text": str(value)}


def converted(function, arguments, names):
    import typing

    hints = typing.get_type_hints(function, include_extras=True)
    return {name: convert(value, hints[name], name) if name in names and name in hints else value for name, value in arguments.items()}


def convert(value, hint, path):
    """Makes an object of the type that the code declares."""
    import dataclasses
    import enum
    import typing

    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return convert(value, args[0], path)
    if origin is typing.Union or origin is getattr(types, "UnionType", None):
        return convert_union(value, args, path)
    if origin in (list, set, frozenset, tuple) or hint in (set, frozenset, tuple):
        return convert_items(value, origin or hint, args, path)
    if origin is dict and len(args) == 2:
        return {key: convert(item, args[1], f"{path}.{key}") for key, item in value.items()}
    if not isinstance(hint, type):
        return value
    if issubclass(hint, enum.Enum):
        return hint(value)
    if hasattr(hint, "model_validate"):
        return hint.model_validate(value)
    if dataclasses.is_dataclass(hint):
        fields = typing.get_type_hints(hint, include_extras=True)
        return hint(**{key: convert(item, fields.get(key), f"{path}.{key}") for key, item in value.items()})
    if typing.is_typeddict(hint) if hasattr(typing, "is_typeddict") else False:
        fields = typing.get_type_hints(hint)
        return {key: convert(item, fields.get(key), f"{path}.{key}") for key, item in value.items()}
    return convert_scalar(value, hint)


def convert_union(value, choices, path):
    problem = None
    for choice in choices:
        if value is None and choice is type(None):
            return None
        try:
            return convert(value, choice, path)
        except (TypeError, ValueError, KeyError, AttributeError) as e:
            problem = e
    raise problem or TypeError(f"{path} is none of {choices}")


def convert_items(value, kind, args, path):
    of = [args[0]] * len(value) if args and (kind is not tuple or args[-1] is Ellipsis) else list(args) or [None] * len(value)
    return kind(convert(item, hint, f"{path}[{i}]") for i, (item, hint) in enumerate(zip(value, of)))


def convert_scalar(value, hint):
    name = f"{hint.__module__}.{hint.__qualname__}"
    if name == "builtins.bytes" and isinstance(value, str):
        import base64

        return base64.b64decode(value, validate=True)
    if name == "builtins.float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if name in ("datetime.datetime", "datetime.date", "datetime.time") and isinstance(value, str):
        return hint.fromisoformat(value.replace("Z", "+00:00"))
    if name in ("decimal.Decimal", "uuid.UUID", "pathlib.Path", "pathlib.PurePosixPath", "pathlib.PosixPath") and not isinstance(value, hint):
        return hint(str(value))
    if hint is type(None) and value is not None or hint in (int, str, bool, list, dict) and not isinstance(value, hint):
        raise TypeError(f"{value!r} is no {hint.__name__}")
    return value
