"""Tools as a program sees them: callables in namespaces, and what they give back."""

import asyncio
import difflib
import json

from check import forgotten, shape


class CommandResult(dict):
    """What a command-line program gave back."""

    def text(self):
        return self.get("stdout", "")

    def lines(self):
        return self.text().splitlines()

    def json(self):
        return json.loads(self.text())


class Awaited(asyncio.Future):
    """The answer of a tool in a program that awaits: it is under way already."""

    awaited = False

    def __init__(self, loop, line, what, convert):
        super().__init__(loop=loop)
        self.line, self.what, self.convert = line, what, convert

    def set_result(self, value):
        super().set_result(self.convert(value) if self.convert else value)

    def set_exception(self, error):
        super().set_exception(error)
        self._log_traceback = False  # an answer that nobody awaits is told of otherwise

    # Whoever awaits it, by itself or with others, does one of these.

    def __await__(self):
        self.awaited = True
        return super().__await__()

    def add_done_callback(self, *arguments, **context):
        self.awaited = True
        super().add_done_callback(*arguments, **context)

    def _later(self, method):
        self.awaited = True

        async def later():
            return getattr(await self, method)()

        return later()

    def text(self):
        return self._later("text")

    def lines(self):
        return self._later("lines")

    def json(self):
        return self._later("json")

    def __repr__(self):
        return f"<the answer of {shape(self.what)}, not awaited>"

    # What only a value has.

    def _no_value(self, *_):
        raise TypeError(forgotten(shape(self.what)))

    __getitem__ = __contains__ = __len__ = __add__ = __radd__ = __lt__ = __gt__ = _no_value

    def __getattr__(self, name):
        raise AttributeError(forgotten(shape(self.what)))


class Tool:
    def __init__(self, program, spec):
        self._program, self._spec = program, spec
        self.__doc__ = spec.get("doc", "")

    def __call__(self, *args, **kwargs):
        return self._program.call(self._spec, args, kwargs)

    def __repr__(self):
        return f"<tool {shape(self._spec)}>"


class Namespace:
    """The tools of one namespace, found by attribute or by [name]."""

    def __init__(self, program, path, kind=""):
        self._program, self._path, self._kind, self._members = program, path, kind, {}

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._members:
            return self._members[name]
        # A program may have more sub-commands than tools: the host knows.
        if not self._path or len(self._path) > 1 and self._kind != "cli":
            return self._unknown(name)
        return Tool(self._program, {"id": f"{self._path[-1]}:{name}", "path": [*self._path, name], "parameters": [], "open": True, "kind": self._kind})

    __getitem__ = __getattr__

    def _unknown(self, name):
        if not self._path:  # tools.NAMESPACE that the program names only at run time
            return Namespace(self._program, [name], self._kind)
        near = difflib.get_close_matches(name, self._members, 1)
        raise AttributeError(f"there is no tool {'.'.join([*self._path, name])}" + (f"; did you mean {near[0]}?" if near else ""))

    def __dir__(self):
        return sorted(self._members)

    def __repr__(self):
        return f"<tools {'.'.join(self._path)}: {', '.join(sorted(self._members))}>"


class Commands(Namespace):
    """cli.git.status(...), and cli("docker-compose").version()."""

    def __call__(self, name):
        return self.__getattr__(name)


def bind(spec, args, kwargs):
    """Positional arguments follow the parameters; one dict alone is all of them."""
    parameters = [p["name"] for p in spec.get("parameters", []) if p["name"] != "_"]
    if spec.get("kind") == "cli" and args:
        return {**kwargs, "_": [str(a) for a in args]}
    if len(args) == 1 and not kwargs and isinstance(args[0], dict) and (not parameters or len(parameters) != 1):
        return args[0]
    if len(args) > len(parameters):
        raise TypeError(f"too many positional arguments: {shape(spec)}")
    for name, value in zip(parameters, args):
        if name in kwargs:
            raise TypeError(f"argument {name} is given twice: {shape(spec)}")
        kwargs[name] = value
    return kwargs
