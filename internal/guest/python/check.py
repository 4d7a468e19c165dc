"""Finds unknown tools, wrong arguments and missing awaits before the program runs."""

import _ast as ast  # the nodes, without the slow parts of ast

from tools import CheckFailed, forgotten, nearest, shape


def nodes(tree):
    """Returns all nodes of a tree in no particular order, except nodes without information. It takes half the time of ast.walk."""
    found = [tree]
    for node in found:
        for name in node._fields:
            if name == "ctx":
                continue
            child = getattr(node, name, None)
            if isinstance(child, ast.AST):
                if child._fields or isinstance(child, ast.Pass):
                    found.append(child)
            elif child.__class__ is list:
                found += [c for c in child if isinstance(c, ast.AST)]
    return found


class Check:
    """Finds unknown tools, wrong arguments and missing awaits before the program runs."""

    def __init__(self, program):
        self.program = program
        self.tools = {tuple(s["path"]): s for s in program.specs}
        self.known = {path[0] for path in self.tools}
        self.by_path = {("tools", *path): s for path, s in self.tools.items()}
        for spec in program.specs:
            for path in spec.get("globals") or []:
                self.by_path[tuple(path)] = spec
        self.by_id = {s["id"]: s for s in program.specs}
        self.missing = program.start.get("unknown") or {}
        self.roots = {path[0] for path in self.by_path} | {name.partition(".")[0] for name in self.missing if "." in name and ":" not in name}
        if self.by_id or self.missing:
            self.roots |= {"call_tool", "run"}
        self.rebound = set()
        self.promised = {}  # name → tool whose answer, not awaited, is assigned to it

    def check(self, tree):
        uses, assigned, stored = [], [], []
        for n in nodes(tree):
            kind = n.__class__
            if kind is ast.Name:
                if n.ctx.__class__ is not ast.Load:
                    self.rebound.add(n.id)
                    stored.append(n.id)
            elif kind in self.USES:
                uses.append(n)
            elif kind is ast.Assign:
                assigned.append(n)
            elif kind in (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
                self.rebound.add(n.name)
                stored.append(n.name)
            elif kind is ast.arg:
                self.rebound.add(n.arg)
                stored.append(n.arg)
            elif kind is ast.alias:
                self.rebound.add((n.asname or n.name).partition(".")[0])
        if self.program.asynchronous:
            import asyncio

            self.readers = {"text", "lines", "json", *dir(asyncio.Future)}
            for n in assigned:
                name = n.targets[0]
                if name.__class__ is ast.Name and stored.count(name.id) == 1:
                    self.promised[name.id] = self.tool_of(n.value)
        for n in uses:
            if n.__class__ is ast.Call:
                self.call(n)
            elif self.program.asynchronous:
                self.USES[n.__class__](self, n)

    def call(self, node):
        path = dotted(node.func)
        if path and path[0] in self.roots and path[0] not in self.rebound:
            literal = path in (("call_tool",), ("run",)) and node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value
            reason = self.missing.get(literal) if isinstance(literal, str) else self.missing.get(".".join(path[:2]))
            if reason:
                raise CheckFailed(reason, node.lineno, node.col_offset + 1)
            spec = self.by_path.get(path)
            if isinstance(literal, str) and literal in self.by_id:
                self.by_literal(node, self.by_id[literal])
            elif spec:
                self.arguments(node, spec)
            elif len(path) > 2 and path[0] in ("tools", "mcp") and path[1] in self.known or len(path) == 2 and path[0] != "tools":
                self.unknown(node, path)

    def unknown(self, node, path):
        siblings = {p[len(path) - 1]: s for p, s in self.by_path.items() if p[: len(path) - 1] == path[:-1] and len(p) == len(path)}
        if not siblings:
            return
        near = nearest(path[-1], siblings)
        text = f"there is no tool {'.'.join(path)}"
        text += f"; did you mean {shape(siblings[near[0]])}?" if near else f"; {'.'.join(path[:-1])} has {', '.join(sorted(siblings)[:20])}"
        raise CheckFailed(text, node.lineno, node.col_offset + 1)

    def by_literal(self, node, spec):
        """Checks call_tool("a:b", {...}) if its dict is a literal."""
        given = node.args[1] if len(node.args) > 1 else ast.Dict([], [])
        if len(node.args) > 2 or not isinstance(given, ast.Dict) or not all(isinstance(k, ast.Constant) and isinstance(k.value, str) for k in given.keys):
            return
        keywords = [*node.keywords, *(ast.keyword(k.value, v) for k, v in zip(given.keys, given.values))]
        call = ast.Call(node.func, [], keywords, lineno=node.lineno, col_offset=node.col_offset)
        self.arguments(call, spec, by_id=True)

    def arguments(self, node, spec, by_id=False):
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            return
        names = [p["name"] for p in spec.get("parameters", [])]
        values = {p["name"]: p["values"] for p in spec.get("parameters", []) if p.get("values")}
        unnamed = [] if spec.get("kind") == "cli" else node.args
        for name, value in [*zip(names, unnamed), *((k.arg, k.value) for k in node.keywords)] if values else ():
            if name in values and isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value not in values[name]:
                known = " or ".join(f'"{v}"' for v in values[name])
                raise CheckFailed(f"{spec['id']} takes {known} as {name}, and gets \"{value.value[:100]}\"", value.lineno, value.col_offset + 1)
        if not spec.get("open"):
            for k in node.keywords:
                if k.arg not in names:
                    near = nearest(k.arg, names)
                    text = f"{spec['id']} has no argument {k.arg}" + (f"; did you mean {near[0]}?" if near else "")
                    raise CheckFailed(f"{text} The call is {shape(spec)}", node.lineno, node.col_offset + 1)
        if node.args or by_id:  # the tool itself checks the required arguments of a call by id
            return
        given = {k.arg for k in node.keywords}
        missing = [p["name"] for p in spec.get("parameters", []) if p.get("required") and p["name"] not in given]
        if missing:
            raise CheckFailed(f"{spec['id']} needs {', '.join(missing)}. The call is {shape(spec)}", node.lineno, node.col_offset + 1)

    # In a program that awaits, an answer must be awaited before it is used.

    def statement(self, node):
        if not isinstance(node.value, ast.Name):
            self.must_await(node.value)

    def value(self, node):
        self.must_await(node.value)

    def attribute(self, node):
        if node.attr not in self.readers:
            self.must_await(node.value)

    def operation(self, node):
        self.must_await(node.left)
        self.must_await(node.right)

    def loop(self, node):
        self.must_await(node.iter)

    def must_await(self, node):
        spec = self.promised.get(node.id) if isinstance(node, ast.Name) else self.tool_of(node)
        if spec:
            raise CheckFailed(forgotten(shape(spec)), node.lineno, node.col_offset + 1)

    def tool_of(self, node):
        """Returns the tool that a node calls, or None."""
        if not isinstance(node, ast.Call):
            return None
        path = dotted(node.func)
        if not path or path[0] in self.rebound:
            return None
        if path in (("call_tool",), ("run",)) and node.args and isinstance(node.args[0], ast.Constant):
            return self.by_id.get(node.args[0].value)
        return self.by_path.get(path)

    USES = {
        ast.Call: call, ast.Expr: statement, ast.Subscript: value, ast.FormattedValue: value,
        ast.Attribute: attribute, ast.BinOp: operation, ast.For: loop,
    }  # fmt: skip


def dotted(node):
    """Returns the path of a.b.c, or () for any other node."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return (node.id, *reversed(parts))
    return ()
