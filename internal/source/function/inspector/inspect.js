// Reads the tools of a JavaScript or TypeScript file: their schemas, their descriptions and
// how to call them. The code is parsed and never run.
//
// The inputs are the texts parser, source, file and stem, the map files and the list wanted.
// The value is {tools} or {problem}, with a message, a line, a column and a hint.
(0, eval)(parser);

class Problem extends Error {
  constructor(message, node, hint = "") {
    super(message);
    this.line = node?.loc?.start.line ?? 0;
    this.column = (node?.loc?.start.column ?? -1) + 1;
    this.hint = hint;
  }
}

const HINT = "write the type out, or put an input_schema into tool.yaml";
const MAX_PARTS = 5000;
let partCount = 0; // of all schemas

// Modules: the main file and those that it imports types from.

const modules = new Map();

function load(name, text) {
  if (modules.has(name)) return modules.get(name);
  const typed = /\.m?ts$/.test(name);
  let ast;
  try {
    ast = __parser.parse(text, {sourceType: "module", attachComment: true, plugins: typed ? ["typescript"] : []});
  } catch (e) {
    if (!e.loc) throw new Problem("it does not parse: " + e.message, undefined, "write it in simpler parts");
    throw new Problem((name === file ? "it" : name) + " does not parse: " + e.message.replace(/ \(\d+:\d+\)$/, ""), {loc: {start: e.loc}}, "correct the syntax");
  }
  const m = {name, ast, typed, types: new Map(), values: new Map(), imports: new Map(), functions: new Map(), exports: new Map()};
  modules.set(name, m);
  for (const node of ast.program.body) collect(m, node, node);
  for (const c of ast.comments) if (c.type === "CommentBlock" && c.value.startsWith("*")) typedefs(m, c);
  return m;
}

function collect(m, node, outer) {
  switch (node.type) {
    case "ImportDeclaration":
      for (const s of node.specifiers) m.imports.set(s.local.name, {from: node.source.value, name: s.imported?.name ?? "default", node: s});
      return;
    case "ExportNamedDeclaration":
      if (node.declaration) {
        collect(m, node.declaration, node);
        for (const name of declared(node.declaration)) m.exports.set(name, name);
      } else if (!node.source) {
        for (const s of node.specifiers) m.exports.set(s.exported.name ?? s.exported.value, s.local.name);
      }
      return;
    case "ExportDefaultDeclaration": {
      const d = node.declaration;
      if (d.type === "Identifier") m.exports.set("default", d.name);
      else if (isFunction(d)) {
        const name = d.id?.name ?? "default";
        m.functions.set(name, {node: d, outer: node});
        m.exports.set("default", name);
      } else collect(m, d, node);
      return;
    }
    case "FunctionDeclaration":
      m.functions.set(node.id.name, {node, outer});
      return;
    case "VariableDeclaration":
      for (const d of node.declarations) {
        if (d.id.type !== "Identifier") continue;
        const value = stripTypes(d.init);
        if (isFunction(value)) m.functions.set(d.id.name, {node: value, outer});
        else if (node.kind === "const" && value) m.values.set(d.id.name, value);
      }
      return;
    case "TSInterfaceDeclaration": case "TSTypeAliasDeclaration": case "TSEnumDeclaration": case "ClassDeclaration":
      if (!node.id) return;
      if (node.type === "TSInterfaceDeclaration" && m.types.get(node.id.name)?.length) m.types.get(node.id.name).push(node);
      else m.types.set(node.id.name, [node]);
      if (outer !== node && !node.leadingComments) node.leadingComments = outer.leadingComments;
  }
}

const isFunction = (node) => node && /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(node.type);
const declared = (node) => (node.declarations ? node.declarations.map((d) => d.id.name) : node.id ? [node.id.name] : []);

// stripTypes returns the expression inside type assertions and parentheses.
function stripTypes(node) {
  while (node && /^(TSAsExpression|TSSatisfiesExpression|TSNonNullExpression|ParenthesizedExpression|TSTypeAssertion)$/.test(node.type)) node = node.expression;
  return node;
}

function sibling(from, spec) {
  if (!spec.startsWith(".")) return undefined;
  const parts = from.split("/").slice(0, -1);
  for (const step of spec.split("/")) {
    if (step === "..") parts.pop();
    else if (step !== ".") parts.push(step);
  }
  const path = parts.join("/");
  return [path, path + ".ts", path + ".mts", path + ".js", path + ".mjs", path.replace(/\.(m?)js$/, ".$1ts"), path + "/index.ts", path + "/index.js"].find((name) => Object.hasOwn(files, name));
}

// resolve returns the declaration of a name, which may be imported from another file.
function resolve(m, name, kind, depth = 0) {
  if (m[kind].has(name)) return {m, found: m[kind].get(name)};
  const imported = m.imports.get(name);
  if (!imported || depth > 20) return undefined;
  const at = sibling(m.name, imported.from);
  if (!at) return {outside: imported};
  const other = load(at, files[at]);
  return resolve(other, imported.name === "default" ? "default" : other.exports.get(imported.name) ?? imported.name, kind, depth + 1);
}

// Comments.

// LIMITS matches the tags that may follow in a line.
const LIMITS = /\s+@(?=(?:minimum|maximum|exclusiveMinimum|exclusiveMaximum|multipleOf|minLength|maxLength|minItems|maxItems|pattern|format|title|integer|default)\b)/g;

function docOf(node) {
  const c = (node?.leadingComments ?? []).filter((c) => c.type === "CommentBlock" && c.value.startsWith("*")).pop();
  return c ? readDoc(c.value) : {text: "", tags: []};
}

function readDoc(value) {
  const lines = value.slice(1).split("\n").flatMap((l) => l.replace(/^\s*\*? ?/, "").trimEnd().replace(LIMITS, "\n@").split("\n"));
  const text = [], tags = [];
  for (const line of lines) {
    const tag = /^\s*@(\w+)\s*(.*)$/.exec(line);
    if (tag) tags.push({name: tag[1], text: tag[2]});
    else if (tags.length) tags[tags.length - 1].text += (tags[tags.length - 1].text ? "\n" : "") + line;
    else text.push(line);
  }
  for (const t of tags) {
    t.text = t.text.trim();
    if (t.text.startsWith("{")) {
      let depth = 0, end = 0;
      while (end < t.text.length) {
        if (t.text[end] === "{") depth++;
        if (t.text[end] === "}" && --depth === 0) break;
        end++;
      }
      t.type = t.text.slice(1, end).trim();
      t.text = t.text.slice(end + 1).trim();
    }
    if (/^(param|arg|argument|property|prop)$/.test(t.name)) {
      const found = /^(\[?)([\w$.]+)(?:=([^\]]*))?\]?\s*(?:-\s*)?([^]*)$/.exec(t.text);
      if (found) Object.assign(t, {of: found[2], optional: found[1] === "[", default: found[3], text: found[4]});
    }
    t.text = t.text.replace(/\s*\n\s*/g, " ").trim();
  }
  return {text: text.join("\n").trim(), tags};
}

function typedefs(m, comment) {
  const doc = readDoc(comment.value);
  const tag = doc.tags.find((t) => t.name === "typedef");
  const name = tag && /^[\w$]+/.exec(tag.text)?.[0];
  if (name && !m.types.has(name)) m.types.set(name, [{type: "JSDoc", tag, doc, loc: comment.loc}]);
}

// typeOfText parses a type of JSDoc.
function typeOfText(text, node, m) {
  let t = text.trim().replace(/\bArray\.</g, "Array<").replace(/\bObject\.?</g, "Record<").replace(/(^|[<,|(\s])\*(?=$|[>,|)\s])/g, "$1any").replace(/^!/, "");
  const optional = t.endsWith("=");
  if (optional) t = t.slice(0, -1);
  if (t.startsWith("?")) t = t.slice(1) + " | null";
  let parsed;
  try {
    parsed = __parser.parse("type T = " + t, {sourceType: "module", plugins: ["typescript"]}).program.body[0].typeAnnotation;
  } catch (e) {
    throw new Problem("the type {" + text + "} cannot be read", node, "write it as in TypeScript");
  }
  const place = (n) => {
    if (!n || typeof n !== "object") return;
    if (Array.isArray(n)) return n.forEach(place);
    if (n.loc) n.loc = node.loc;
    for (const key of Object.keys(n)) if (key !== "loc") place(n[key]);
  };
  place(parsed);
  return {type: parsed, optional};
}

const NUMBERS = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems"];

// annotate adds the description and the tags of a comment to a schema.
function annotate(schema, doc) {
  const out = {...schema};
  if (doc.text) out.description = doc.text;
  for (const t of doc.tags) {
    if (NUMBERS.includes(t.name) && t.text && isFinite(t.text)) out[t.name] = +t.text;
    else if ((t.name === "pattern" || t.name === "format" || t.name === "title") && t.text) out[t.name] = t.text;
    else if (t.name === "integer" && out.type === "number") out.type = "integer";
    else if (t.name === "default" && t.text) {
      try { out.default = JSON.parse(t.text); } catch { out.default = t.text; }
    }
  }
  return out;
}

// Types. The method of returns {schema, shape, optional}: shape describes how to make an
// object of the type from JSON; optional means that the type includes undefined.

const PLAIN = {
  TSNumberKeyword: {type: "number"}, TSStringKeyword: {type: "string"}, TSBooleanKeyword: {type: "boolean"}, TSNullKeyword: {type: "null"},
  TSAnyKeyword: {}, TSUnknownKeyword: {}, TSObjectKeyword: {type: "object"},
};
const NAMED = {
  String: {type: "string"}, Number: {type: "number"}, Boolean: {type: "boolean"}, Object: {type: "object"}, integer: {type: "integer"}, int: {type: "integer"}, float: {type: "number"},
};
const STREAMS = ["AsyncGenerator", "Generator", "AsyncIterable", "Iterable", "AsyncIterableIterator", "IterableIterator", "AsyncIterator", "Iterator"];

class Schemas {
  constructor(output) {
    this.output = output;
    this.definitions = {};
    this.shapes = {};
    this.open = new Map(); // declarations whose schemas are being made
  }

  of(node, m, env, path) {
    if (++partCount > MAX_PARTS) throw new Problem(`${path} has a type of more than ${MAX_PARTS} parts`, node, HINT);
    if (PLAIN[node.type]) return {schema: {...PLAIN[node.type]}};
    switch (node.type) {
      case "TSTypeAnnotation": return this.of(node.typeAnnotation, m, env, path);
      case "TSParenthesizedType": return this.of(node.typeAnnotation, m, env, path);
      case "TSBigIntKeyword": return {schema: {type: "integer"}, shape: "bigint"};
      case "TSUndefinedKeyword": case "TSVoidKeyword": return {schema: {type: "null"}, optional: true, nothing: true};
      case "TSLiteralType": return {schema: {const: this.literal(node.literal, path)}};
      case "TSTemplateLiteralType": return {schema: {type: "string"}};
      case "TSArrayType": return this.list(node.elementType, m, env, path);
      case "TSTupleType": return this.tuple(node, m, env, path);
      case "TSUnionType": return this.union(node.types.map((t) => this.of(t, m, env, path)));
      case "TSIntersectionType": return this.intersection(node, m, env, path);
      case "TSTypeLiteral": return this.object(node.members, m, env, path);
      case "TSTypeOperator": return this.operator(node, m, env, path);
      case "TSIndexedAccessType": return this.indexed(node, m, env, path);
      case "TSMappedType": return this.mapped(node, m, env, path);
      case "TSTypeQuery": return this.query(node, m, path);
      case "TSTypeReference": case "TSExpressionWithTypeArguments": case "TSClassImplements": case "TSInterfaceHeritage": return this.reference(node, m, env, path);
      case "TSFunctionType": case "TSConstructorType": throw new Problem(`${path} is a function, and arguments are JSON values`, node, "take data instead, or make it part of the code");
    }
    throw new Problem(`${path} has a type that cannot be a schema (${node.type.replace(/^TS/, "")})`, node, HINT);
  }

  literal(node, path) {
    const v = evaluate(node, undefined, 0);
    if (!v.known || typeof v.value === "bigint") throw new Problem(`${path} has a literal that is no JSON value`, node, HINT);
    return v.value;
  }

  list(item, m, env, path) {
    const inner = this.of(item, m, env, path + "[]");
    return {schema: {type: "array", ...optionalMember("items", inner.schema)}, shape: inner.shape && {items: inner.shape}};
  }

  tuple(node, m, env, path) {
    const items = [];
    let least = 0, rest;
    node.elementTypes.forEach((e, i) => {
      let type = e.type === "TSNamedTupleMember" ? e.elementType : e;
      const optional = e.type === "TSOptionalType" || e.optional;
      if (type.type === "TSOptionalType") type = type.typeAnnotation;
      if (type.type === "TSRestType") {
        const of = this.of(type.typeAnnotation.type === "TSNamedTupleMember" ? type.typeAnnotation.elementType : type.typeAnnotation, m, env, `${path}[${i}]`).schema;
        rest = of.items ?? {};
        return;
      }
      items.push(this.of(type, m, env, `${path}[${i}]`).schema);
      if (!optional) least = items.length;
    });
    return {schema: {type: "array", ...(items.length ? {prefixItems: items} : {}), minItems: least, ...(rest ? optionalMember("items", rest) : {maxItems: items.length})}};
  }

  union(parts) {
    const optional = parts.some((p) => p.optional);
    const real = parts.filter((p) => !p.nothing);
    const schemas = real.map((p) => p.schema);
    const shapes = real.filter((p) => p.shape);
    const shape = shapes.length === 1 && (real.length === 1 || real.every((p) => p.shape || p.schema.type === "null" || p.schema.type === "boolean" || p.schema.const !== undefined)) ? shapes[0].shape : undefined;
    return {schema: unionOf(schemas), shape, optional, nothing: !real.length};
  }

  intersection(node, m, env, path) {
    const parts = node.types.map((t) => this.of(t, m, env, path));
    if (parts.every((p) => p.schema.type === "object" && p.schema.properties)) {
      const schema = {type: "object", properties: {}, required: [], additionalProperties: false}, props = {};
      for (const p of parts) {
        Object.assign(schema.properties, p.schema.properties);
        schema.required = [...new Set([...schema.required, ...p.schema.required])];
        if (p.schema.additionalProperties !== false) schema.additionalProperties = p.schema.additionalProperties;
        Object.assign(props, p.shape?.props);
      }
      return {schema, shape: Object.keys(props).length ? {props} : undefined};
    }
    return {schema: {allOf: parts.map((p) => (p.schema.additionalProperties === false ? {...p.schema, additionalProperties: true} : p.schema))}};
  }

  object(members, m, env, path) {
    const properties = {}, required = [], props = {};
    let extra = false, values;
    for (const p of members) {
      if (p.type === "TSIndexSignature") {
        const of = this.of(p.typeAnnotation, m, env, path + ".*");
        extra = of.schema;
        values = of.shape;
        continue;
      }
      const name = p.key?.name ?? p.key?.value;
      if (p.type !== "TSPropertySignature" || p.computed || name === undefined) throw new Problem(`${path}.${name ?? "…"} is a function, and arguments are JSON values`, p, "take data instead");
      if (!p.typeAnnotation) throw new Problem(`${path}.${name} has no type`, p, `write ${name}: number, string, boolean, or another type`);
      const of = this.of(p.typeAnnotation, m, env, `${path}.${name}`);
      define(properties, String(name), annotate(of.schema, docOf(p)));
      if (of.shape) props[name] = of.shape;
      if (!p.optional && !of.optional) required.push(String(name));
    }
    const shape = Object.keys(props).length || values ? {props, values} : undefined;
    return {schema: {type: "object", properties, required, additionalProperties: extra}, shape};
  }

  operator(node, m, env, path) {
    if (node.operator === "readonly") return this.of(node.typeAnnotation, m, env, path);
    if (node.operator === "keyof") {
      const keys = Object.keys(this.of(node.typeAnnotation, m, env, path).schema.properties ?? {});
      if (keys.length) return {schema: unionOf(keys.map((k) => ({const: k})))};
      return {schema: {type: "string"}};
    }
    throw new Problem(`${path} has a type that cannot be a schema (${node.operator})`, node, HINT);
  }

  indexed(node, m, env, path) {
    const of = this.of(node.objectType, m, env, path).schema;
    if (node.indexType.type === "TSNumberKeyword" && of.type === "array") {
      if (of.prefixItems) return {schema: unionOf(of.prefixItems)};
      return {schema: of.items ?? {}};
    }
    const key = this.of(node.indexType, m, env, path).schema;
    const names = key.enum ?? (key.const !== undefined ? [key.const] : []);
    if (!names.length || !of.properties || names.some((n) => !Object.hasOwn(of.properties, n))) throw new Problem(`${path} has a type that is looked up where nothing is`, node, HINT);
    return {schema: unionOf(names.map((n) => of.properties[n]))};
  }

  mapped(node, m, env, path) {
    const name = node.typeParameter?.name?.name ?? node.typeParameter?.name ?? node.key?.name;
    const keys = this.of(node.typeParameter?.constraint ?? node.constraint, m, env, path).schema;
    const value = (key) => this.of(node.typeAnnotation, m, key === undefined ? env : {...env, [name]: {schema: {const: key}}}, path + ".*");
    const names = keys.enum ?? (keys.const !== undefined ? [keys.const] : undefined);
    if (!names) return {schema: {type: "object", ...optionalMember("additionalProperties", value().schema)}};
    const properties = {};
    for (const k of names) define(properties, String(k), value(k).schema);
    return {schema: {type: "object", properties, required: node.optional ? [] : names.map(String), additionalProperties: false}};
  }

  query(node, m, path) {
    const v = evaluate({type: "Identifier", name: node.exprName.name}, m, 0);
    if (!v.known) throw new Problem(`${path} has the type of a value that is not a constant`, node, HINT);
    return {schema: schemaOf(v.value)};
  }

  reference(node, m, env, path) {
    const id = node.typeName ?? node.expression;
    const args = (node.typeParameters ?? node.typeArguments)?.params ?? [];
    if (id.type === "TSQualifiedName") {
      const found = resolve(m, id.left.name, "types");
      const member = found?.found?.[0].type === "TSEnumDeclaration" && enumValues(found.found[0], found.m).find((e) => e.name === id.right.name);
      if (!member) throw new Problem(`${path} has the type ${id.left.name}.${id.right.name}, which is not declared here`, node, HINT);
      return {schema: {const: member.value}};
    }
    const name = id.name;
    if (env && Object.hasOwn(env, name)) {
      const bound = env[name];
      return bound.schema ? {schema: bound.schema} : this.of(bound.node, bound.m, bound.env, path);
    }
    const found = resolve(m, name, "types");
    if (found?.outside) {
      if (found.outside.from === "toolroom" && (name === "Image" || name === "Handle")) return {schema: {}, content: true};
      throw new Problem(`${path} has the type ${name} of the module ${found.outside.from}, which is not read`, node, HINT);
    }
    if (found) return this.declaration(name, found, args.map((a) => ({node: a, m, env})), node, path);
    return this.builtin(name, args, m, env, node, path);
  }

  declaration(name, {m, found}, args, node, path) {
    const first = found[0];
    if (first.type === "ClassDeclaration") throw new Problem(`${path} has the class ${name} as its type, and arguments are plain data`, node, "declare an interface");
    if (first.type === "TSEnumDeclaration") {
      const values = enumValues(first, m);
      return {schema: annotate(unionOf(values.map((e) => ({const: e.value}))), docOf(first))};
    }
    const parameters = first.typeParameters?.params ?? [];
    if (this.open.has(first)) {
      if (parameters.length) throw new Problem(`${path} has the type ${name}, which contains itself and has parameters`, node, HINT);
      this.open.set(first, true);
      return {schema: {$ref: "#/$defs/" + name}, shape: {ref: name}};
    }
    if (this.open.size > 60) throw new Problem(`${path} has types nested deeper than 60`, node, HINT);
    const env = {};
    parameters.forEach((p, i) => {
      const of = args[i] ?? (p.default && {node: p.default, m, env});
      if (of) env[p.name?.name ?? p.name] = of;
    });
    this.open.set(first, false);
    let made;
    try {
      made = this.body(found, m, env, path);
    } finally {
      var recursive = this.open.get(first);
      this.open.delete(first);
    }
    made = {...made, schema: annotate(made.schema, docOf(first))};
    if (recursive) {
      this.definitions[name] = made.schema;
      this.shapes[name] = made.shape;
      return {schema: {$ref: "#/$defs/" + name}, shape: made.shape && hasShape(made.shape) ? {ref: name} : undefined};
    }
    if (made.shape && !hasShape(made.shape)) made.shape = undefined;
    return made;
  }

  body(found, m, env, path) {
    const first = found[0];
    if (first.type === "TSTypeAliasDeclaration") return this.of(first.typeAnnotation, m, env, path);
    if (first.type === "JSDoc") return this.typedef(first, m, path);
    const parts = [];
    for (const one of found) for (const base of one.extends ?? []) parts.push(this.of(base, m, env, path));
    parts.push(this.object(found.flatMap((one) => one.body.body), m, env, path));
    if (parts.length === 1) return parts[0];
    const schema = {type: "object", properties: {}, required: [], additionalProperties: false}, props = {};
    for (const p of parts) {
      Object.assign(schema.properties, p.schema.properties);
      schema.required = [...new Set([...schema.required, ...(p.schema.required ?? [])])];
      if (p.schema.additionalProperties) schema.additionalProperties = p.schema.additionalProperties;
      Object.assign(props, p.shape?.props);
    }
    return {schema, shape: Object.keys(props).length ? {props} : undefined};
  }

  typedef({tag, doc, loc}, m, path) {
    if (tag.type && !/^object$/i.test(tag.type)) return this.of(typeOfText(tag.type, {loc}, m).type, m, {}, path);
    return this.objectOfTags(doc.tags.filter((t) => t.name === "property" || t.name === "prop"), {loc}, m, path);
  }

  // objectOfTags makes an object type from JSDoc tags.
  objectOfTags(tags, node, m, path) {
    const properties = {}, required = [], props = {};
    for (const t of tags) {
      if (!t.of || !t.type) throw new Problem(`${path} has a property without name or type`, node, "write @property {string} name");
      const {type, optional} = typeOfText(t.type, node, m);
      const of = this.of(type, m, {}, `${path}.${t.of}`);
      const schema = {...of.schema, ...(t.text ? {description: t.text} : {})};
      if (t.default !== undefined) schema.default = textDefault(t.default);
      define(properties, t.of, schema);
      if (of.shape) props[t.of] = of.shape;
      if (!t.optional && !optional && !of.optional) required.push(t.of);
    }
    return {schema: {type: "object", properties, required, additionalProperties: false}, shape: Object.keys(props).length ? {props} : undefined};
  }

  builtin(name, args, m, env, node, path) {
    const of = (i, at = path) => (args[i] ? this.of(args[i], m, env, at) : {schema: {}});
    const object = () => {
      const o = of(0);
      if (o.schema.$ref || !o.schema.properties) throw new Problem(`${path} has ${name} of a type that is no plain object`, node, HINT);
      return o;
    };
    const names = (i) => {
      const s = of(i).schema;
      return s.enum ?? (s.const !== undefined ? [s.const] : []);
    };
    switch (name) {
      case "Array": case "ReadonlyArray": return args[0] ? this.list(args[0], m, env, path) : {schema: {type: "array"}};
      case "Set": case "ReadonlySet": {
        const inner = of(0, path + "[]");
        return {schema: {type: "array", ...optionalMember("items", inner.schema), ...(this.output ? {} : {uniqueItems: true})}, shape: {set: inner.shape ?? null}};
      }
      case "Map": case "ReadonlyMap": {
        const key = args[0] && this.of(args[0], m, env, path);
        if (key && (key.schema.type !== "string" || key.shape)) throw new Problem(`${path} is a Map whose keys are not text, and keys of JSON objects are text`, node, "use Map<string, …>");
        const inner = of(1, path + ".*");
        return {schema: {type: "object", ...optionalMember("additionalProperties", inner.schema)}, shape: {map: inner.shape ?? null}};
      }
      case "Record": {
        const keys = names(0), inner = of(1, path + ".*");
        if (!keys.length) return {schema: {type: "object", ...optionalMember("additionalProperties", inner.schema)}, shape: inner.shape && {props: {}, values: inner.shape}};
        const properties = {};
        for (const k of keys) define(properties, String(k), inner.schema);
        return {schema: {type: "object", properties, required: keys.map(String), additionalProperties: false}};
      }
      case "Partial": { const o = object(); return {...o, schema: {...o.schema, required: []}}; }
      case "Required": { const o = object(); return {...o, schema: {...o.schema, required: Object.keys(o.schema.properties)}}; }
      case "Readonly": case "NonNullable": case "Awaited": case "Promise": case "PromiseLike": {
        const o = of(0);
        if (name === "NonNullable") return {...o, optional: false, schema: withoutNull(o.schema)};
        return o;
      }
      case "Pick": case "Omit": {
        const o = object(), listed = names(1), keep = (k) => listed.includes(k) === (name === "Pick");
        const properties = Object.fromEntries(Object.entries(o.schema.properties).filter(([k]) => keep(k)));
        return {...o, schema: {...o.schema, properties, required: o.schema.required.filter(keep)}};
      }
      case "Exclude": case "Extract": {
        const other = names(1);
        return {schema: unionOf(names(0).filter((v) => other.includes(v) === (name === "Extract")).map((v) => ({const: v})))};
      }
      case "Date": return {schema: {type: "string", format: "date-time"}, shape: "date"};
      case "Uint8Array": case "Buffer": case "ArrayBuffer": return this.output ? {schema: {}, content: true} : {schema: {type: "string", contentEncoding: "base64"}, shape: "bytes"};
      case "Uppercase": case "Lowercase": case "Capitalize": case "Uncapitalize": return {schema: {type: "string"}};
    }
    if (STREAMS.includes(name) && this.output) return args[0] ? this.list(args[0], m, env, path) : {schema: {type: "array"}};
    if (NAMED[name]) return {schema: {...NAMED[name]}};
    throw new Problem(`${path} has the type ${name}, which is not declared here`, node, HINT);
  }
}

const hasShape = (shape) => (typeof shape === "string" ? true : shape && !shape.ref && Object.values(shape).some((s) => (s && typeof s === "object" && !s.ref ? Object.values(s).some(hasShape) || s.set !== undefined || s.map !== undefined || s.items : typeof s === "string")) || shape?.set !== undefined || shape?.map !== undefined);
const optionalMember = (key, schema) => (Object.keys(schema).length ? {[key]: schema} : {});

function define(object, key, value) {
  Object.defineProperty(object, key, {value, writable: true, enumerable: true, configurable: true});
}

function withoutNull(schema) {
  if (Array.isArray(schema.type)) {
    const type = schema.type.filter((t) => t !== "null");
    return {...schema, type: type.length === 1 ? type[0] : type};
  }
  return schema.anyOf ? {...schema, anyOf: schema.anyOf.filter((s) => s.type !== "null")} : schema;
}

// unionOf returns a schema that accepts the values of any of the schemas.
function unionOf(schemas) {
  const flat = schemas.flatMap((s) => (s.enum && Object.keys(s).every((k) => k === "enum" || k === "type") ? s.enum.map((v) => ({const: v})) : [s]));
  if (flat.length === 0) return {};
  if (flat.length === 1) return flat[0].const !== undefined && typeof flat[0].const === "string" ? {type: "string", ...flat[0]} : flat[0];
  if (flat.some((s) => !Object.keys(s).length)) return {};
  const isConst = (s) => s.const !== undefined || s.type === "null" && Object.keys(s).length === 1;
  if (flat.every(isConst)) {
    const values = [...new Set(flat.map((s) => (s.const === undefined ? null : s.const)))];
    if (values.length === 2 && values.includes(true) && values.includes(false)) return {type: "boolean"};
    return {enum: values, ...(values.every((v) => typeof v === "string") ? {type: "string"} : {})};
  }
  const names = [...new Set(flat.map((s) => s.type))];
  if (flat.every((s) => typeof s.type === "string" && Object.keys(s).length === 1)) return {type: names.length > 1 ? names : names[0]};
  const consts = flat.filter((s) => s.const !== undefined);
  const others = flat.filter((s) => s.const === undefined);
  return {anyOf: [...(consts.length ? [unionOf(consts)] : []), ...others]};
}

// schemaOf returns the schema of a constant's type, as with "as const".
function schemaOf(v) {
  if (Array.isArray(v)) return {type: "array", prefixItems: v.map(schemaOf)};
  if (v && typeof v === "object") {
    const properties = {};
    for (const k of Object.keys(v)) define(properties, k, schemaOf(v[k]));
    return {type: "object", properties, required: Object.keys(v), additionalProperties: false};
  }
  return {const: v};
}

function enumValues(node, m) {
  let next = 0;
  return (node.members ?? node.body.members).map((e) => {
    const v = e.initializer ? evaluate(e.initializer, m, 0) : {known: true, value: next};
    if (!v.known) throw new Problem(`the value of ${e.id.name ?? e.id.value} is not a constant`, e, "write a number or a text");
    next = typeof v.value === "number" ? v.value + 1 : NaN;
    return {name: e.id.name ?? e.id.value, value: v.value};
  });
}

// evaluate returns the value of an expression, if it is a constant.
function evaluate(node, m, depth) {
  node = stripTypes(node);
  const no = {known: false}, yes = (value) => ({known: true, value});
  if (!node || depth > 50) return no;
  const inner = (n) => evaluate(n, m, depth + 1);
  switch (node.type) {
    case "StringLiteral": case "NumericLiteral": case "BooleanLiteral": return yes(node.value);
    case "BigIntLiteral": return yes(BigInt(node.value));
    case "NullLiteral": return yes(null);
    case "TemplateLiteral": return node.expressions.length ? no : yes(node.quasis[0].value.cooked);
    case "UnaryExpression": {
      const v = inner(node.argument);
      if (!v.known || typeof v.value !== "number" && typeof v.value !== "bigint") return no;
      return node.operator === "-" ? yes(-v.value) : node.operator === "+" ? v : no;
    }
    case "ArrayExpression": {
      const all = node.elements.map((e) => (e && e.type !== "SpreadElement" ? inner(e) : no));
      return all.every((v) => v.known) ? yes(all.map((v) => v.value)) : no;
    }
    case "ObjectExpression": {
      const object = {};
      for (const p of node.properties) {
        const v = p.type === "ObjectProperty" && !p.computed ? inner(p.value) : no;
        if (!v.known) return no;
        define(object, String(p.key.name ?? p.key.value), v.value);
      }
      return yes(object);
    }
    case "Identifier": {
      if (node.name === "undefined") return {known: true, value: undefined};
      const found = m && resolve(m, node.name, "values");
      return found?.found ? evaluate(found.found, found.m, depth + 1) : node.name === "NaN" || node.name === "Infinity" ? yes(NaN) : no;
    }
    case "MemberExpression": {
      const name = node.object.type === "Identifier" && node.object.name;
      const found = name && m && resolve(m, name, "types");
      if (found?.found?.[0].type === "TSEnumDeclaration") {
        const e = enumValues(found.found[0], found.m).find((e) => e.name === (node.property.name ?? node.property.value));
        return e ? yes(e.value) : no;
      }
      const of = inner(node.object), key = node.computed ? inner(node.property).value : node.property.name;
      return of.known && of.value && typeof of.value === "object" && Object.hasOwn(of.value, key) ? yes(of.value[key]) : no;
    }
    case "NewExpression":
      if (node.callee.name === "Set" && node.arguments.length <= 1) return node.arguments.length ? inner(node.arguments[0]) : yes([]);
      return no;
  }
  return no;
}

function textDefault(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text.replace(/^'(.*)'$/, "$1");
  }
}

function isJSON(v) {
  if (typeof v === "number") return isFinite(v);
  if (v === null || typeof v === "string" || typeof v === "boolean") return true;
  if (typeof v !== "object") return false;
  return (Array.isArray(v) ? v : Object.values(v)).every(isJSON);
}

// fits reports whether a constant fits a schema, as far as that is easy to tell.
function fits(schema, v, definitions) {
  if (schema.$ref) return fits(definitions[schema.$ref.slice(8)] ?? {}, v, definitions);
  if (schema.const !== undefined) return schema.const === v;
  if (schema.enum) return schema.enum.includes(v);
  if (schema.anyOf) return schema.anyOf.some((s) => fits(s, v, definitions));
  const kind = v === null ? "null" : Array.isArray(v) ? "array" : typeof v;
  const types = schema.type === undefined ? [kind] : [].concat(schema.type);
  if (!types.includes(kind) && !(kind === "number" && types.includes("integer") && Number.isInteger(v))) return false;
  if (kind === "array" && schema.items) return v.every((item) => fits(schema.items, item, definitions));
  if (kind === "object" && schema.properties) {
    return (schema.required ?? []).every((k) => Object.hasOwn(v, k)) && Object.keys(v).every((k) => (Object.hasOwn(schema.properties, k) ? fits(schema.properties[k], v[k], definitions) : schema.additionalProperties !== false));
  }
  return true;
}

// Functions.

const isContext = (name, annotation) => {
  const type = annotation?.typeAnnotation;
  if (type) return type.type === "TSTypeReference" && /^(Tool)?Context$/.test(type.typeName?.name ?? "");
  return name === "context" || name === "ctx";
};

class Describe {
  constructor(name, exported, {node, outer}, m) {
    Object.assign(this, {name, exported, node, m, doc: docOf(outer).text || docOf(outer).tags.length ? docOf(outer) : docOf(node)});
    this.schemas = new Schemas(false);
    this.properties = {};
    this.required = [];
    this.props = {};
    this.order = [];
    this.context = "";
    this.extra = false;
  }

  tag(name) { return this.doc.tags.find((t) => /^(param|arg|argument)$/.test(t.name) && t.of === name); }

  add(name, of, node, fallback) {
    let schema = of.schema;
    const tag = this.tag(name);
    if (tag?.text && !schema.description) schema = {...schema, description: tag.text};
    let optional = of.optional;
    const value = fallback && evaluate(fallback, this.m, 0);
    const given = value?.known ? value : tag?.default !== undefined ? {known: true, value: textDefault(tag.default)} : undefined;
    if (given && given.value !== undefined && typeof given.value !== "bigint") {
      if (!isJSON(given.value)) throw new Problem(`the default of ${name} is no JSON value`, fallback ?? node, "use null, or leave the parameter out");
      if (!fits(schema, given.value, this.schemas.definitions)) throw new Problem(`the default of ${name} is ${JSON.stringify(given.value)}, which does not fit its type`, fallback ?? node, "correct the default or the type");
      schema = {...schema, default: given.value};
    }
    define(this.properties, name, schema);
    if (of.shape) this.props[name] = of.shape;
    if (!optional && !fallback && !tag?.optional && !given) this.required.push(name);
  }

  typeOf(name, node, annotation, fallback) {
    if (annotation) return this.schemas.of(annotation, this.m, {}, name);
    const tag = this.tag(name);
    if (tag?.type) {
      const {type, optional} = typeOfText(tag.type, node, this.m);
      const of = this.schemas.of(type, this.m, {}, name);
      return {...of, optional: of.optional || optional};
    }
    const v = fallback && evaluate(fallback, this.m, 0);
    if (v?.known && v.value !== null && v.value !== undefined) return {schema: {type: Array.isArray(v.value) ? "array" : typeof v.value === "bigint" ? "integer" : typeof v.value}, shape: typeof v.value === "bigint" ? "bigint" : undefined};
    throw new Problem(`the parameter ${name} has no type`, node, this.m.typed ? `write ${name}: number, string, boolean, or another type; any accepts every value` : `write its type into a comment before the function: @param {number} ${name}`);
  }

  parameters() {
    const list = this.node.params.filter((p) => !(p.type === "Identifier" && p.name === "this"));
    list.forEach((p, i) => {
      const fallback = p.type === "AssignmentPattern" ? p.right : undefined;
      const target = fallback ? p.left : p;
      if (p.type === "RestElement") throw new Problem(`the parameter ...${p.argument.name ?? ""} takes any number of values, and arguments have names`, p, "take an array");
      if (target.type === "Identifier") {
        if (isContext(target.name, target.typeAnnotation) && !this.context) {
          this.context = target.name;
          this.order.push(target.name);
          return;
        }
        this.order.push(target.name);
        const of = this.typeOf(target.name, target, target.typeAnnotation, fallback);
        return this.add(target.name, target.optional ? {...of, optional: true} : of, target, fallback);
      }
      if (target.type === "ObjectPattern" && i === 0) return this.destructured(target);
      throw new Problem("a parameter is taken apart, and arguments have names", target, "only the first parameter may be {…}, which then stands for all arguments");
    });
  }

  // destructured reads a first parameter {a, b = 1}, whose members are the arguments.
  destructured(target) {
    this.order.push("*");
    const defaults = new Map();
    for (const p of target.properties) {
      if (p.type === "ObjectProperty" && p.value.type === "AssignmentPattern") defaults.set(p.key.name ?? p.key.value, p.value.right);
    }
    let whole;
    if (target.typeAnnotation) whole = this.schemas.of(target.typeAnnotation, this.m, {}, "the arguments");
    else {
      const tags = this.doc.tags.filter((t) => /^(param|arg|argument)$/.test(t.name));
      const nested = tags.filter((t) => t.of?.includes(".")).map((t) => ({...t, of: t.of.split(".").pop()}));
      const typed = tags.find((t) => t.type && !t.of?.includes(".") && !/^object$/i.test(t.type));
      if (nested.length) whole = this.schemas.objectOfTags(nested, target, this.m, "the arguments");
      else if (typed && !target.properties.some((p) => p.key?.name === typed.of)) whole = this.schemas.of(typeOfText(typed.type, target, this.m).type, this.m, {}, "the arguments");
    }
    if (!whole) {
      for (const p of target.properties) {
        if (p.type === "RestElement") throw new Problem("the parameters have no types", p, "declare the type of the first parameter");
        const name = p.key.name ?? p.key.value;
        this.add(name, this.typeOf(name, p, undefined, defaults.get(name)), p, defaults.get(name));
      }
      return;
    }
    const schema = whole.schema.$ref ? this.schemas.definitions[whole.schema.$ref.slice(8)] : whole.schema;
    if (!schema.properties) throw new Problem("the type of the first parameter has no members that could be the arguments", target, "declare an interface or an object type");
    this.props = whole.shape?.props ?? {};
    this.extra = schema.additionalProperties ?? false;
    for (const name of Object.keys(schema.properties)) this.add(name, {schema: schema.properties[name], shape: this.props[name], optional: !schema.required.includes(name)}, target, defaults.get(name));
  }

  output() {
    const schemas = new Schemas(true);
    const tag = this.doc.tags.find((t) => /^(returns?|yields?)$/.test(t.name));
    let type = this.node.returnType?.typeAnnotation;
    if (!type && tag?.type) type = typeOfText(tag.type, this.node, this.m).type;
    if (!type || type.type === "TSTypePredicate") return null;
    const of = schemas.of(type, this.m, {}, "the return value");
    if (of.content || of.nothing || !Object.keys(of.schema).length) return null;
    let schema = of.optional ? unionOf([of.schema, {type: "null"}]) : of.schema;
    if (tag?.text && !schema.description) schema = {...schema, description: tag.text};
    if (Object.keys(schemas.definitions).length) schema = {...schema, $defs: schemas.definitions};
    return schema;
  }

  tool() {
    partCount = 0;
    this.parameters();
    const input = {type: "object", properties: this.properties, required: this.required, additionalProperties: this.extra};
    if (Object.keys(this.schemas.definitions).length) input.$defs = this.schemas.definitions;
    const plan = {positional: this.order};
    if (this.context) plan.context = this.context;
    if (Object.keys(this.props).length) plan.shapes = {props: this.props, definitions: this.schemas.shapes};
    if (!this.exported) plan.private = true;
    const title = this.doc.tags.find((t) => t.name === "title")?.text ?? "";
    const own = this.name === "default" ? this.node.id?.name ?? stem : this.name;
    const line = this.node.loc.start.line;
    return {name: own === "main" ? stem : own, entry: this.name, title, description: this.doc.text, input, output: this.output(), plan, line};
  }
}

function entries(m) {
  const describe = (name, local, exported) => new Describe(name, exported, m.functions.get(local), m);
  const exported = [...m.exports].filter(([, local]) => m.functions.has(local));
  if (wanted.length) {
    return wanted.map((name) => {
      const found = exported.find(([as]) => as === name);
      if (found) return describe(found[0], found[1], true);
      if (!m.functions.has(name)) throw new Problem(`there is no function ${name}, which tool.yaml names; there is ${[...m.functions.keys()].join(", ") || "none"}`, {loc: {start: {line: 1, column: 0}}});
      return describe(name, name, false);
    });
  }
  if (exported.length) return exported.map(([as, local]) => describe(as, local, true));
  const all = [...m.functions.keys()];
  for (const only of ["main", stem]) if (m.functions.has(only)) return [describe(only, only, false)];
  if (all.length === 1) return [describe(all[0], all[0], false)];
  if (!all.length) throw new Problem("it has no function that could be the tool", {loc: {start: {line: 1, column: 0}}}, "export one: export default function " + (/^[A-Za-z_$][\w$]*$/.test(stem) ? stem : "main") + "(…) {…}");
  const second = m.functions.get(all[1]).node;
  throw new Problem(`it has ${all.length} functions (${all.slice(0, 6).map((n) => n + " in line " + m.functions.get(n).node.loc.start.line).join(", ")}), and none is exported`, second, "export each tool, or name the one main");
}

try {
  const m = load(file, source);
  return {tools: entries(m).map((d) => d.tool()), imports: []};
} catch (e) {
  if (!(e instanceof Problem)) {
    if (e instanceof RangeError || e.name === "InternalError") return {problem: {message: "it is nested too deep to be read", line: 0, column: 0, hint: "write it in simpler parts"}};
    throw e;
  }
  return {problem: {message: e.message, line: e.line, column: e.column, hint: e.hint}};
}
