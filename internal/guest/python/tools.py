"""Tools as a program sees them: callables in namespaces, and their results."""


def shape(spec):
    """Returns the call as the author should write it; spec may already be that text."""
    if isinstance(spec, str):
        return spec
    parts = [f"{p['name']}=..." for p in spec.get("parameters", []) if p.get("required")]
    optional = [p["name"] for p in spec.get("parameters", []) if not p.get("required") and p["name"] != "_"]
    text = f"{'.'.join(['tools', *spec.get('path', [spec['id']])])}({', '.join(parts)})"
    return text + (f"  # optional: {', '.join(optional[:8])}" if optional else "")


def forgotten(what):
    return f"the answer of a tool is used without await: write `await {what.partition('  #')[0]}`"


def nearest(name, names):
    """Returns the name that was probably meant, in a list, or an empty list."""
    import difflib

    return difflib.get_close_matches(name, names, 1)


class CheckFailed(Exception):
    """The program was rejected before it ran; the message says what to write instead."""

    def __init__(self, message, line=0, column=0):
        super().__init__(message)
        self.line, self.column = line, column


class CommandResult(dict):
    """The result of a command-line program: stdout, stderr, exit_code and ok, as items and as attributes."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the result of a command has no {name}; it has {', '.join(self)}") from None

    def text(self):
        return self.get("stdout", "")

    def lines(self):
        return self.text().splitlines()

    def json(self):
        import json

        return json.loads(self.text())


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
        # A program may have more sub-commands than tools; the server decides.
        if not self._path or len(self._path) > 1 and self._kind != "cli":
            return self._unknown(name)
        return Tool(self._program, {"id": f"{self._path[-1]}:{name}", "path": [*self._path, name], "parameters": [], "open": True, "kind": self._kind})

    __getitem__ = __getattr__

    def __call__(self, *args, **kwargs):
        if not self._path:
            raise TypeError("tools is a namespace: call one of its tools")
        name = self._path[-1]
        if self._kind != "cli":  # perhaps the whole id of a tool: tools[id](…); the server knows
            return Tool(self._program, {"id": name, "path": self._path, "parameters": [], "open": True, "kind": self._kind})(*args, **kwargs)
        return Tool(self._program, {"id": f"{name}:{name}", "path": [*self._path, name], "parameters": [], "open": True, "kind": "cli"})(*args, **kwargs)

    def _unknown(self, name):
        if not self._path:  # a namespace that the program names only at run time
            return Namespace(self._program, [name], self._kind)
        near = nearest(name, self._members)
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
    """Binds positional arguments to the parameters in order; a single dict holds all arguments."""
    parameters = [p["name"] for p in spec.get("parameters", []) if p["name"] != "_"]
    if spec.get("kind") == "cli" and args:
        for i, word in enumerate(args):
            if not isinstance(word, (str, int, float)) and not hasattr(word, "__fspath__"):
                raise TypeError(f"word {i + 1} of {shape(spec)} is neither text nor a number: give each word as an argument of its own")
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
