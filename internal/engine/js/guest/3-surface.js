// What the author's code finds: tools as functions, the console, timers.

function shape(tool) {
  const parameters = tool.parameters.map((p) => p.name + (p.required ? ": " : "?: ") + (p.type || "any"));
  if (tool.open) parameters.push("…");
  return "await tools." + tool.path.join(".") + "(" + (parameters.length ? "{" + parameters.join(", ") + "}" : "") + ")";
}

function invalid(tool, message) {
  return new ToolError({code: "invalid_arguments", phase: "validate_input", tool: tool.id, message, hint: "call it as " + shape(tool)});
}

function isPlain(v) {
  if (typeof v !== "object" || v === null) return false;
  const prototype = getPrototypeOf(v);
  return prototype === objectPrototype || prototype === null;
}

// named turns positional arguments into named ones.
function named(tool, list) {
  const names = tool.parameters.map((p) => p.name);
  if (list.length === 1 && isPlain(list[0])) {
    const keys = keysOf(list[0]);
    const fits = keys.some((k) => names.includes(k)) || !keys.length || tool.parameters[0]?.type !== "object";
    if (fits) return checked(tool, names, list[0]);
  }
  if (tool.kind === "cli") {
    const options = list.length && isPlain(list[list.length - 1]) ? list.pop() : {};
    return list.length ? {...options, _: list.map(Text)} : options;
  }
  const byName = {};
  if (list.length > 1 && list.length <= names.length + 1 && isPlain(list[list.length - 1]) && tool.parameters[list.length - 1]?.type !== "object") {
    const rest = list.pop();
    for (const key of keysOf(rest)) define(byName, key, rest[key]);
  }
  if (list.length > names.length) throw invalid(tool, tool.id + " takes " + names.length + " arguments, not " + list.length);
  list.forEach((value, i) => define(byName, names[i], value));
  return checked(tool, names, byName);
}

function checked(tool, names, values) {
  if (!tool.open) for (const key of keysOf(values)) if (!names.includes(key)) throw invalid(tool, tool.id + " has no argument " + key);
  for (const p of tool.parameters) if (p.required && values[p.name] === undefined) throw invalid(tool, tool.id + " needs the argument " + p.name);
  return values;
}

function writeCall(id, values) {
  return () => {
    writeHead(0xa0, 2);
    writeText("tool");
    writeText(id);
    writeText("arguments");
    try {
      writeValue(values, 0);
    } catch (e) {
      if (!(e instanceof ValueProblem)) throw e;
      throw new ToolError({code: "invalid_arguments", phase: "validate_input", tool: id, message: "the arguments of " + id + " cannot be sent: " + e.message});
    }
  };
}

function callTool(id, values = {}) {
  if (typeof id !== "string") throw new TypeError('the first argument is the tool\'s id, for example call_tool("github:create_issue", {title: "Bug fix"})');
  if (!isPlain(values)) throw new TypeError('the arguments are one object, for example call_tool("' + id + '", {title: "Bug fix"})');
  try {
    return promised(kinds.call, id, writeCall(id, values));
  } catch (e) {
    return PlainPromise.reject(e);
  }
}

// commandLine gives the promise of a program's result the readers of its text.
function commandLine(promise) {
  promise.text = () => promise.then((r) => r.stdout);
  promise.lines = () => promise.then((r) => r.stdout.split("\n").filter((line, i, all) => line !== "" || i < all.length - 1));
  promise.json = () => promise.then((r) => JSON.parse(r.stdout));
  return promise;
}

function callable(tool) {
  return (...list) => {
    let promise;
    try {
      promise = callTool(tool.id, named(tool, list));
    } catch (e) {
      promise = PlainPromise.reject(e);
    }
    return tool.kind === "cli" ? commandLine(promise) : promise;
  };
}

// unlisted makes the members of a namespace that the program was not told of.
// The host says what is wrong with a name that no tool has.
function unlisted(kind, namespace) {
  return (name) => callable({id: namespace + ":" + name, path: [namespace, name], kind, parameters: [], open: true});
}

function tree(make) {
  return createObject(new Proxy(createObject(null), {
    get(_, name) { return typeof name === "string" && name !== "then" && name !== "toJSON" ? make(name) : undefined; },
  }));
}

function namespaces(kind) {
  return tree((namespace) => tree(unlisted(kind, namespace)));
}

const tools = namespaces("");
const mcp = namespaces("mcp");
const cli = (program) => cli[program];
Object.setPrototypeOf(cli, namespaces("cli"));

function plant(root, path, value, kind) {
  let node = root;
  for (let i = 0; i < path.length - 1; i++) {
    if (!hasOwn(node, path[i])) {
      defineProperty(node, path[i], {value: tree(unlisted(kind, path[i])), writable: true, enumerable: true, configurable: true});
    }
    node = node[path[i]];
  }
  defineProperty(node, path[path.length - 1], {value, writable: true, enumerable: true, configurable: true});
}

function offer(list) {
  for (const tool of list) {
    const call = callable(tool);
    plant(tools, tool.path, call, tool.kind);
    for (const path of tool.globals) {
      const [first, ...rest] = path;
      if (first === "tools" || first === "mcp" || first === "cli") plant({tools, mcp, cli}[first], rest, call, tool.kind);
      else plant(globalThis, path, call, tool.kind);
    }
  }
}

function optional(names, values) {
  return () => {
    const present = names.map((name, i) => [name, values[i]]).filter(([, value]) => value !== undefined);
    writeHead(0xa0, present.length);
    for (const [name, value] of present) {
      writeText(name);
      writeValue(value, 0);
    }
  };
}

async function artifact(handle) {
  const id = typeof handle === "string" ? handle : handle?.id ?? handle?.handle;
  if (typeof id !== "string") throw new TypeError('give the handle, for example artifacts.get("art_1")');
  const parts = [];
  let length = 0, size = 0, media_type = "";
  do {
    const part = await promised(kinds.get, "artifacts.get", optional(["handle", "offset", "length"], [id, length, 0]));
    parts.push(part.data);
    length += part.data.length;
    size = part.size;
    media_type = part.media_type || media_type;
    if (!part.data.length) break;
  } while (length < size);
  const bytes = new Bytes(length);
  let to = 0;
  for (const part of parts) {
    bytes.set(part, to);
    to += part.length;
  }
  return {bytes, media_type};
}

function utf8(bytes) {
  status[2] = 0;
  status[3] = bytes.length;
  return decodeText(bytes);
}

const surface = {
  tools, mcp, cli, ToolError, Handle,
  call_tool: callTool,
  run(id, values = {}) {
    return blocking(kinds.call, id, writeCall(id, values));
  },
  run_chain: (steps) => promised(kinds.chain, "run_chain", optional(["steps"], [steps])),
  search_tools(query, options) {
    return promised(kinds.search, "search_tools", optional(["query", "limit"], [query, typeof options === "object" ? options?.limit : options]));
  },
  describe_tool(tool, options) {
    return promised(kinds.describe, "describe_tool", optional(["tool", "level"], [tool, (typeof options === "object" ? options?.level : options) ?? "schema"]));
  },
  artifacts: freeze({
    put(name, content, mediaType) {
      const bytes = typeof content === "string" ? encodeText(content.toWellFormed()) : content;
      return promised(kinds.put, "artifacts.put", optional(["name", "data", "media_type"], [name, bytes, mediaType]));
    },
    get: async (handle) => (await artifact(handle)).bytes,
  }),
  results: freeze({
    async get(handle) {
      const {bytes, media_type} = await artifact(handle);
      const text = utf8(bytes);
      return media_type.includes("json") ? JSON.parse(text) : text;
    },
  }),
  progress(done, total, message = "") { flush(); tell(kinds.progress, {done: +done || 0, total: +total || 0, message: Text(message)}); },
  log(message, level = "info", fields = {}) { flush(); tell(kinds.log, {level: Text(level), message: Text(message), fields}); },
  print: (...list) => print("stdout", list.map(show).join(" ") + "\n"),
};

function show(v) {
  return typeof v === "string" ? v : inspect(v, 0, []);
}

// inspect writes a value for people; it never fails and never runs for long.
function inspect(v, depth, above) {
  if (typeof v === "string") return JSON.stringify(v);
  if (typeof v === "bigint") return v + "n";
  if (typeof v === "function") return "[function " + (v.name || "anonymous") + "]";
  if (typeof v !== "object" || v === null) return Text(v);
  try {
    if (v instanceof PlainError) return v.name + ": " + v.message;
    if (v instanceof PlainDate) return isNaN(v) ? "Invalid Date" : v.toISOString();
    if (v instanceof PlainPromise) return "[promise: write await]";
    if (above.includes(v)) return "[circular]";
    if (depth > 4) return isArray(v) ? "[…]" : "{…}";
    const within = [...above, v], inner = (item) => inspect(item, depth + 1, within);
    if (v instanceof PlainMap) return "Map " + inspect(Object.fromEntries(v), depth, above);
    if (v instanceof PlainSet) return "Set " + inspect([...v], depth, above);
    if (isArray(v) || isView(v)) return "[" + arrayFrom(v.length > 100 ? v.slice(0, 100) : v, inner).join(", ") + (v.length > 100 ? ", … " + (v.length - 100) + " more" : "") + "]";
    const names = keysOf(v);
    return "{" + names.slice(0, 100).map((k) => (/^[A-Za-z_$][\w$]*$/.test(k) ? k : JSON.stringify(k)) + ": " + inner(v[k])).join(", ") + (names.length > 100 ? ", …" : "") + "}";
  } catch (e) {
    return "[unreadable]";
  }
}

const toOut = (...list) => print("stdout", list.map(show).join(" ") + "\n");
const toErr = (...list) => print("stderr", list.map(show).join(" ") + "\n");
surface.console = {
  log: toOut, info: toOut, debug: toOut, dir: toOut, table: toOut, warn: toErr, error: toErr, trace: toErr,
  assert(ok, ...list) { if (!ok) toErr("Assertion failed", ...list); },
};

// Timers: due ones are run when the host says that time has passed.
const timers = new PlainMap();
let lastTimer = 0;

function schedule(repeat, handler, delay, list) {
  delay = Math.min(Math.max(+delay || 0, 0), 0x7fffffff);
  timers.set(++lastTimer, {due: PlainDate.now() + delay, handler, list, every: repeat ? Math.max(delay, 1) : undefined});
  setAlarm();
  return lastTimer;
}

function setAlarm() {
  let next = Infinity;
  for (const timer of timers.values()) next = Math.min(next, timer.due);
  status[1] = next === Infinity ? -1 : Math.max(0, Math.ceil(next - PlainDate.now()));
}

function runTimers() {
  const now = PlainDate.now();
  for (const [id, timer] of [...timers].sort(([, a], [, b]) => a.due - b.due)) {
    if (timer.due > now || !timers.has(id)) continue;
    if (timer.every) timer.due = now + timer.every;
    else timers.delete(id);
    try {
      timer.handler(...timer.list);
    } catch (e) {
      fault(e);
    }
  }
}

surface.setTimeout = (handler, delay, ...list) => schedule(false, handler, delay, list);
surface.setInterval = (handler, delay, ...list) => schedule(true, handler, delay, list);
surface.clearTimeout = surface.clearInterval = (id) => { timers.delete(id); setAlarm(); };

surface.TextEncoder = class TextEncoder {
  get encoding() { return "utf-8"; }
  encode(text = "") { return encodeText(Text(text).toWellFormed()); }
};
surface.TextDecoder = class TextDecoder {
  get encoding() { return "utf-8"; }
  decode(bytes = new Bytes()) { return utf8(bytes instanceof Bytes ? bytes : isView(bytes) ? new Bytes(bytes.buffer, bytes.byteOffset, bytes.byteLength) : new Bytes(bytes)); }
};

function someRandom(n) {
  status[2] = n;
  return randomBytes();
}

surface.crypto = freeze({
  getRandomValues(array) {
    if (array.byteLength > 65535) throw new RangeError("at most 65535 bytes of random values at once");
    new Bytes(array.buffer, array.byteOffset, array.byteLength).set(someRandom(array.byteLength));
    return array;
  },
  randomUUID() {
    const b = someRandom(16);
    b[6] = b[6] & 15 | 64;
    b[8] = b[8] & 63 | 128;
    const hex = b.toHex();
    return hex.slice(0, 8) + "-" + hex.slice(8, 12) + "-" + hex.slice(12, 16) + "-" + hex.slice(16, 20) + "-" + hex.slice(20);
  },
});

// The image of this engine holds one random state for all runs: each run draws
// its own from the host. The generator is xorshift128+.
let s0 = 0n, s1 = 0n;
const mask = 0xffffffffffffffffn;
Math.random = function random() {
  if (s0 === 0n && s1 === 0n) {
    const seed = new DataView(someRandom(16).buffer);
    s0 = seed.getBigUint64(0);
    s1 = seed.getBigUint64(8) | 1n;
  }
  let a = s0;
  const b = s1;
  s0 = b;
  a ^= a << 23n & mask;
  s1 = a ^ b ^ a >> 17n ^ b >> 26n;
  return Number((s1 + b & mask) >> 11n) / 9007199254740992;
};

for (const name of keysOf(surface)) defineProperty(globalThis, name, {value: surface[name], writable: true, enumerable: false, configurable: true});
