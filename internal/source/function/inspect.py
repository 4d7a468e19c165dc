"""Reads the tools of a Python file: their schemas, descriptions and how to call them.

The variables source, name, stem and wanted are inputs. The value is {"tools": [...]} or
{"problem": {...}}, with a message, a line, a column and a hint.
"""

import ast
import inspect
import re
import sys
import types
import typing


class Problem(Exception):
    def __init__(self, message, line=0, column=0, hint=""):
        super().__init__(message)
        self.line, self.column, self.hint = line, column, hint


def load(source, name, stem):
    try:
        tree = ast.parse(source, name)
        code = compile(tree, name, "exec", dont_inherit=True)
    except SyntaxError as e:
        raise Problem(f"it does not parse: {e.msg}", e.lineno or 0, e.offset or 0, "correct the syntax") from None
    except (ValueError, RecursionError, MemoryError) as e:
        raise Problem(f"it does not parse: {e}", hint="correct the syntax, or write it in simpler parts") from None
    module = types.ModuleType("__tool__")
    module.__file__ = name
    sys.modules["__tool__"] = module
    try:
        exec(code, module.__dict__)
    except SystemExit as e:
        raise Problem(f"its top level ends the program (exit {e.code})", *where(e, name), "move that into a function") from None
    except BaseException as e:
        if missing := undefined(e):
            raise Problem(missing, *where(e, name), "correct the name, or define it") from None
        hint = "declare the package: # /// script, dependencies = [...]" if isinstance(e, ModuleNotFoundError) else "what the top level does must work without a call"
        raise Problem(f"its top level fails: {type(e).__name__}: {e}", *where(e, name), hint) from None
    return tree, module


def undefined(error):
    """Describes a name that another file of the tool does not define, and lists those that it defines."""
    found = re.match("cannot import name '(.*?)' from '", str(error))
    module = sys.modules.get(getattr(error, "name", None) or "")
    if not isinstance(error, ImportError) or not found or not module:
        return ""
    names = [k for k, v in vars(module).items() if not k.startswith("_") and getattr(v, "__module__", None) == module.__name__]
    return f"{module.__name__} does not define {found[1]}; it defines {', '.join(names[:8]) or 'nothing'}{', …' if len(names) > 8 else ''}"


def where(error, name):
    line = 0
    trace = error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == name:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line, 0


def is_marked(node):
    for d in node.decorator_list:
        d = d.func if isinstance(d, ast.Call) else d
        if isinstance(d, ast.Name) and d.id == "tool" or isinstance(d, ast.Attribute) and d.attr == "tool":
            return True
    return False


def entries(tree, module, name, stem, wanted):
    """Returns the definitions of the functions that are tools."""
    found = {n.name: n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
    seen = {}
    for n in tree.body:
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if n.name in seen and not n.name.startswith("_"):
                raise Problem(f"the function {n.name} is defined twice, first in line {seen[n.name]}", n.lineno, n.col_offset + 1, "remove or rename one")
            seen[n.name] = n.lineno
    if wanted:
        missing = [w for w in wanted if w not in found]
        if missing:
            raise Problem(f"there is no function {missing[0]}, which tool.yaml names; there is {', '.join(found) or 'none'}", 1, 1, "correct entry in tool.yaml, or define the function")
        return [found[w] for w in wanted]
    marked = [n for n in found.values() if is_marked(n)]
    listed = [found[n] for n in getattr(module, "__all__", ()) if n in found]
    if marked or listed:
        return marked or listed
    for only in ("main", stem):
        if only in found:
            return [found[only]]
    public = [n for n in found.values() if not n.name.startswith("_")]
    if not public:
        raise Problem("it has no function that could be the tool", 1, 1, f"define one with type hints: def {stem if stem.isidentifier() else 'main'}(...)")
    if len(public) > 1:
        names = ", ".join(f"{n.name} in line {n.lineno}" for n in public[:6])
        raise Problem(f"it has {len(public)} public functions ({names}), and none is marked as the tool", public[1].lineno, public[1].col_offset + 1, f"mark each tool with @tool (from toolroom import tool), list them in __all__, or name the one {stem} or main")
    return public


# Docstrings: Google, NumPy and reST.

SECTIONS = {"args": "args", "arguments": "args", "parameters": "args", "params": "args", "returns": "returns", "return": "returns", "yields": "returns", "raises": "raises",
            "example": "other", "examples": "other", "note": "other", "notes": "other", "see also": "other", "warning": "other", "warnings": "other", "attributes": "other"}  # fmt: skip


def docstring(text):
    """Returns the description, the descriptions of parameters, and that of the value."""
    text = inspect.cleandoc(text or "")
    if re.search(r"^:(param|parameter|arg|returns?)\b", text, re.M):
        return rest_doc(text)
    lines, summary, parameters, returns, section, i = text.split("\n"), [], {}, [], "", 0
    while i < len(lines):
        line = lines[i]
        title = line.strip().rstrip(":").lower()
        underlined = i + 1 < len(lines) and re.fullmatch(r"\s*-{3,}\s*", lines[i + 1])
        if title in SECTIONS and (line.strip().endswith(":") or underlined):
            section, i = SECTIONS[title], i + (2 if underlined else 1)
            block = []
            while i < len(lines) and not (lines[i].strip().rstrip(":").lower() in SECTIONS and (lines[i].strip().endswith(":") or i + 1 < len(lines) and re.fullmatch(r"\s*-{3,}\s*", lines[i + 1]))):
                if not underlined and lines[i].strip() and not lines[i].startswith((" ", "\t")):
                    break
                block.append(lines[i])
                i += 1
            if section == "args":
                parameters.update(numpy_fields(block) if underlined else google_fields(block))
            elif section == "returns":
                returns = [l.strip() for l in block if l.strip()]
            continue
        summary.append(line)
        i += 1
    return "\n".join(summary).strip(), parameters, " ".join(returns)


def google_fields(block):
    fields, last, base = {}, None, None
    for line in block:
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        base = indent if base is None else base
        m = re.match(r"\s*\*{0,2}(\w+)\s*(\([^)]*\))?\s*:\s*(.*)", line)
        if m and indent <= base:
            last = m[1]
            fields[last] = m[3].strip()
        elif last:
            fields[last] = f"{fields[last]} {line.strip()}".strip()
    return fields


def numpy_fields(block):
    fields, last, base = {}, [], None
    for line in block:
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        base = indent if base is None else base
        if indent <= base:
            last = [n.strip(" *") for n in line.partition(":")[0].split(",")]
            for n in last:
                fields[n] = ""
        else:
            for n in last:
                fields[n] = f"{fields[n]} {line.strip()}".strip()
    return fields


def rest_doc(text):
    head, parameters, returns, last = [], {}, "", None
    for line in text.split("\n"):
        m = re.match(r":(?:param|parameter|arg|argument)\s+(?:[\w.\[\], |]+\s+)?\*{0,2}(\w+)\s*:\s*(.*)", line)
        r = re.match(r":returns?:\s*(.*)", line)
        if m:
            last = m[1]
            parameters[last] = m[2].strip()
        elif r:
            returns, last = r[1].strip(), "return"
        elif re.match(r":\w+", line):
            last = "other"
        elif last is None:
            head.append(line)
        elif line.strip() and last in parameters:
            parameters[last] += " " + line.strip()
    return "\n".join(head).strip(), parameters, returns


# Types.

PLAIN = {"int": "integer", "float": "number", "str": "string", "bool": "boolean"}
FORMATS = {
    "datetime.datetime": {"type": "string", "format": "date-time"}, "datetime.date": {"type": "string", "format": "date"}, "datetime.time": {"type": "string", "format": "time"},
    "decimal.Decimal": {"type": ["string", "number"]}, "uuid.UUID": {"type": "string", "format": "uuid"}, "pathlib.Path": {"type": "string"}, "pathlib.PurePosixPath": {"type": "string"},
    "pathlib.PosixPath": {"type": "string"}, "builtins.bytes": {"type": "string", "contentEncoding": "base64"},
}  # fmt: skip


class Schemas:
    """Makes the schemas of one function. Output schemas describe values as the bridge sends them."""

    def __init__(self, output=False):
        self.definitions, self.output = {}, output

    def of(self, hint, path):
        """Returns the schema of a type, and whether its values must be converted."""
        if hint is typing.Any or hint is inspect.Parameter.empty or hint is object:
            return {}, False
        if hint is None or hint is type(None):
            return {"type": "null"}, False
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return self.annotated(args, path)
        if origin is typing.Literal:
            return self.literal(args, path), False
        if origin is typing.Union or origin is getattr(types, "UnionType", None):
            return self.union(args, path)
        if origin in (typing.Required, typing.NotRequired) if hasattr(typing, "Required") else False:
            return self.of(args[0], path)
        if isinstance(hint, typing.NewType) if isinstance(typing.NewType, type) else False:
            return self.of(hint.__supertype__, path)
        if isinstance(hint, typing.TypeVar):
            return self.of(hint.__bound__ or typing.Any, path)
        return self.container(hint, origin or hint, args, path)

    def container(self, hint, origin, args, path):
        import collections.abc as abc

        if origin in (list, abc.Sequence, abc.Iterable, abc.Collection, abc.MutableSequence, abc.Iterator, abc.Generator, abc.AsyncIterator, abc.AsyncGenerator, abc.AsyncIterable):
            inner, convert = self.of(args[0], path + "[]") if args else ({}, False)
            return {"type": "array", **({"items": inner} if inner else {})}, convert
        if origin in (set, frozenset, abc.Set):
            inner, _ = self.of(args[0], path + "[]") if args else ({}, False)
            return {"type": "array", **({"items": inner} if inner else {}), **({} if self.output else {"uniqueItems": True})}, True
        if origin is tuple:
            return self.tuple(args, path), True
        if origin in (dict, abc.Mapping, abc.MutableMapping):
            if args and args[0] not in (str, typing.Any) and not (isinstance(args[0], type) and issubclass(args[0], str)):
                raise Problem(f"{path} is a dict with keys of {show(args[0])}, and keys of JSON objects are text", hint="use dict[str, ...]")
            inner, convert = self.of(args[1], path + ".*") if len(args) == 2 else ({}, False)
            return {"type": "object", **({"additionalProperties": inner} if inner else {})}, convert
        return self.named(hint, path)

    def tuple(self, args, path):
        if len(args) == 2 and args[1] is Ellipsis:
            inner, _ = self.of(args[0], path + "[]")
            return {"type": "array", "items": inner}
        if not args:
            return {"type": "array"}
        items = [self.of(a, f"{path}[{i}]")[0] for i, a in enumerate(args)]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    def named(self, hint, path):
        import dataclasses
        import enum

        if not isinstance(hint, type):
            raise Problem(f"{path} has the type {show(hint)}, which has no JSON Schema", hint="a type that contains itself must be a dataclass, a TypedDict or a Pydantic model")
        name = f"{hint.__module__}.{hint.__qualname__}"
        if hint.__module__ == "builtins" and hint.__name__ in PLAIN:
            return {"type": PLAIN[hint.__name__]}, hint is float and not self.output
        if name in FORMATS:
            return dict(FORMATS[name]), True
        if issubclass(hint, enum.Enum):
            values = [member.value for member in hint]
            return {"enum": values, **({"type": "string"} if all(isinstance(v, str) for v in values) else {})}, True
        if hasattr(hint, "model_json_schema"):
            return self.pydantic(hint), True
        if dataclasses.is_dataclass(hint):
            return self.reference(hint, path, self.dataclass), True
        if hasattr(hint, "__required_keys__"):
            return self.reference(hint, path, self.typed_dict), True
        if self.output and (hint.__module__.partition(".")[0] == "toolroom" or name in ("function.Image", "bridge_codec.Handle")):
            return {}, False
        raise Problem(f"{path} has the type {show(hint)}, which has no JSON Schema", hint="use numbers, text, bool, lists, dicts, Enum, Literal, a dataclass, a TypedDict or a Pydantic model")

    def reference(self, hint, path, make):
        """Puts the schema of a class into the definitions, so that it can refer to itself."""
        name = hint.__name__
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = make(hint, path)
        return {"$ref": f"#/$defs/{name}"}

    def dataclass(self, hint, path):
        import dataclasses

        hints = typing.get_type_hints(hint, include_extras=True)
        properties, required = {}, []
        for f in dataclasses.fields(hint):
            if not f.init and not self.output:
                continue
            properties[f.name] = self.of(hints[f.name], f"{path}.{f.name}")[0]
            if f.default is not dataclasses.MISSING:
                put_default(properties[f.name], f.default)
            if self.output or f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
                required.append(f.name)
        return described({"type": "object", "properties": properties, "required": required, "additionalProperties": False}, hint)

    def typed_dict(self, hint, path):
        hints = typing.get_type_hints(hint, include_extras=True)
        properties = {key: self.of(value, f"{path}.{key}")[0] for key, value in hints.items()}
        return described({"type": "object", "properties": properties, "required": sorted(hint.__required_keys__), "additionalProperties": False}, hint)

    def pydantic(self, hint):
        made = hint.model_json_schema(mode="serialization" if self.output else "validation")
        self.definitions.update(made.pop("$defs", {}))
        self.definitions[hint.__name__] = made
        return {"$ref": f"#/$defs/{hint.__name__}"}

    def union(self, args, path):
        made = [self.of(a, path) for a in args]
        schemas, convert = [s for s, _ in made], any(c for _, c in made)
        if any(not s for s in schemas):
            return {}, convert
        if all(list(s) == ["type"] and isinstance(s["type"], str) for s in schemas):
            return {"type": [s["type"] for s in schemas] if len(schemas) > 1 else schemas[0]["type"]}, convert
        return {"anyOf": schemas}, convert

    def literal(self, args, path):
        for a in args:
            if not isinstance(a, (str, int, bool, type(None))):
                raise Problem(f"{path} has the literal {a!r}, which is no JSON value", hint="use numbers, text, bool or None")
        return {"enum": list(args), **({"type": "string"} if all(isinstance(a, str) for a in args) else {})}

    def annotated(self, args, path):
        schema, convert = self.of(args[0], path)
        schema = dict(schema)
        for extra in args[1:]:
            if isinstance(extra, str):
                schema["description"] = extra
            elif isinstance(extra, dict):
                schema.update(extra)
            elif type(extra).__name__ == "FieldInfo":
                self.field(schema, extra)
            elif type(extra).__module__.partition(".")[0] == "annotated_types":
                bound(schema, extra)
        return schema, convert

    def field(self, schema, extra):
        if getattr(extra, "description", None):
            schema["description"] = extra.description
        for constraint in getattr(extra, "metadata", ()):
            bound(schema, constraint)


def bound(schema, constraint):
    for attribute, keyword in (("ge", "minimum"), ("gt", "exclusiveMinimum"), ("le", "maximum"), ("lt", "exclusiveMaximum"), ("multiple_of", "multipleOf"), ("pattern", "pattern")):
        value = getattr(constraint, attribute, None)
        if value is not None:
            schema[keyword] = value
    for attribute, text, items in (("min_length", "minLength", "minItems"), ("max_length", "maxLength", "maxItems")):
        value = getattr(constraint, attribute, None)
        if value is not None:
            schema[items if schema.get("type") == "array" else text] = value


def described(schema, hint):
    doc = hint.__doc__ or ""
    if doc and not doc.startswith(hint.__name__ + "("):
        schema["description"] = inspect.cleandoc(doc)
    return schema


def show(hint):
    return getattr(hint, "__qualname__", None) or str(hint)


def json_value(value):
    """Returns a default as JSON, or raises TypeError."""
    import dataclasses
    import enum

    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        raise TypeError("text with half a surrogate pair")
    if value is None or isinstance(value, (bool, int, str)) or isinstance(value, float) and value == value and abs(value) != float("inf"):
        return value
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(v) for v in value]
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {k: json_value(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: json_value(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(type(value).__name__)


def put_default(schema, value):
    try:
        schema["default"] = json_value(value)
    except TypeError:
        pass  # the function has it nevertheless


def fits(schema, value):
    """Reports whether a default fits the type of its parameter, as far as that is easy to tell."""
    kinds = schema.get("type")
    if "enum" in schema:
        return value in schema["enum"]
    if not kinds:
        return True
    kinds = [kinds] if isinstance(kinds, str) else kinds
    names = {"integer": lambda v: isinstance(v, int) and not isinstance(v, bool), "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool), "string": lambda v: isinstance(v, str),
             "boolean": lambda v: isinstance(v, bool), "null": lambda v: v is None, "array": lambda v: isinstance(v, list), "object": lambda v: isinstance(v, dict)}  # fmt: skip
    return any(names[k](value) for k in kinds)


def is_context(parameter, hint):
    if getattr(hint, "__name__", "") == "Context" and getattr(hint, "__module__", "") in ("function", "toolroom"):
        return True
    return hint is inspect.Parameter.empty and parameter.name in ("context", "ctx")


def optional(schema):
    """Adds null, which `x: int = None` means."""
    kinds = schema.get("type")
    if isinstance(kinds, str) and "enum" not in schema:
        return {**schema, "type": [kinds, "null"]}
    return {"anyOf": [schema, {"type": "null"}]} if schema else schema


def fields(tree):
    """Returns the positions of the fields of classes, by Class.field."""
    found = {}
    for n in ast.walk(tree):
        if isinstance(n, ast.ClassDef):
            for f in n.body:
                if isinstance(f, ast.AnnAssign) and isinstance(f.target, ast.Name):
                    found[f"{n.name}.{f.target.id}"] = (f.lineno, f.col_offset + 1)
    return found


def describe(node, module, stem, places):
    function = getattr(module, node.name)
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as e:
        raise Problem(f"the type hints of {node.name} cannot be evaluated: {e}", node.lineno, node.col_offset + 1, "import or define the types that they name") from None
    places = {**places, **{a.arg: (a.lineno, a.col_offset + 1) for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg] if a}}
    text, documented, returns = docstring(inspect.getdoc(function))
    schemas, properties, required, convert, positional = Schemas(), {}, [], [], []
    plan, extra = {}, False
    for p in signature.parameters.values():
        hint = hints.get(p.name, p.annotation)
        try:
            if is_context(p, hint):
                plan["context"] = p.name
                continue
            if p.kind is p.VAR_POSITIONAL:
                raise Problem(f"the parameter *{p.name} takes any number of values, and arguments have names", hint="use a list")
            if p.kind is p.VAR_KEYWORD:
                extra = {} if hint is p.empty else schemas.of(hint, p.name)[0]
                continue
            if hint is p.empty and p.default is p.empty:
                raise Problem(f"the parameter {p.name} has no type hint", hint=f"write {p.name}: int, str, float, bool, list[...], dict[str, ...] or another type; Any accepts every value")
            if hint is p.empty and p.default is not None:
                hint = type(p.default)
            schema, converts = schemas.of(hint, p.name)
            if p.default is None:
                schema = schema if "null" in str(schema) or not schema else optional(schema)
            if p.default is not p.empty:
                try:
                    schema = {**schema, "default": json_value(p.default)}
                except TypeError as e:
                    raise Problem(f"the default of {p.name} is a {e}, which is no JSON value", hint="use None, and make the value in the function") from None
                if not fits(schema, schema["default"]):
                    raise Problem(f"the default of {p.name} is {p.default!r}, which does not fit its type {show(hint)}", hint="correct the default or the type")
            else:
                required.append(p.name)
            if converts:
                convert.append(p.name)
            if p.kind is p.POSITIONAL_ONLY:
                positional.append(p.name)
            if documented.get(p.name) and "description" not in schema:
                schema = {**schema, "description": documented[p.name]}
            properties[p.name] = schema
        except Problem as e:
            e.line, e.column = places.get(p.name, (node.lineno, node.col_offset + 1))
            raise
    input_schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": extra}
    if schemas.definitions:
        input_schema["$defs"] = schemas.definitions
    unknown = [name for name in documented if name not in signature.parameters]
    if convert:
        plan["convert"] = convert
    if positional:
        plan["positional"] = positional
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        plan["async"] = True
    title = getattr(function, "__toolroom_title__", "")
    return {
        "name": (stem if node.name == "main" else node.name), "entry": node.name, "title": title, "description": text, "input": input_schema, "output": output_schema(hints, signature, node, returns),
        "plan": plan, "line": node.lineno, "places": places, "unknown": unknown,
    }  # fmt: skip


def output_schema(hints, signature, node, returns):
    hint = hints.get("return", signature.return_annotation)
    if hint in (inspect.Signature.empty, typing.Any):
        return None
    schemas = Schemas(output=True)
    bare = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    if bare is bytes or getattr(bare, "__name__", "") in ("Image", "Handle"):
        return None  # content, not a value
    try:
        schema, _ = schemas.of(hint, "the return value")
    except Problem as e:
        at = node.returns or node
        e.line, e.column = at.lineno, at.col_offset + 1
        raise
    if not schema:
        return None
    if returns and "description" not in schema:
        schema = {**schema, "description": returns}
    if schemas.definitions:
        schema = {**schema, "$defs": schemas.definitions}
    return schema


def imports(tree):
    names = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            names += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return sorted({n for n in names if n.partition(".")[0] not in sys.stdlib_module_names and n != "toolroom"})


def main():
    try:
        tree, module = load(source, name, stem)
        places = fields(tree)
        found = [describe(n, module, stem, places) for n in entries(tree, module, name, stem, wanted)]
        return {"tools": found, "imports": imports(tree)}
    except Problem as e:
        return {"problem": {"message": str(e), "line": e.line, "column": e.column, "hint": e.hint}}


main()
