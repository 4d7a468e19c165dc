// The global variables of programs: tools as functions, the console, timers.

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

function parameter(tool, name) {
  const list = tool.parameters;
  for (let i = 0; i < list.length; i++) if (list[i].name === name) return list[i];
}

// argumentsByName returns the arguments of a call by name.
function argumentsByName(tool, list) {
  const parameters = tool.parameters, first = list[0];
  if (list.length === 1 && isPlain(first)) {
    // A single object holds all arguments, unless it can only be the first of them.
    if (parameters[0]?.type !== "object" || keysOf(first).some((key) => parameter(tool, key))) return checked(tool, first);
  }
  const options = list.length > 1 && isPlain(list[list.length - 1]) && parameters[list.length - 1]?.type !== "object" ? list.pop() : {};
  if (tool.kind === "cli") {
    list.forEach((word, i) => {
      if (word === undefined || word === null || typeof word === "object" || typeof word === "function") {
        throw invalid(tool, "word " + (i + 1) + " of " + tool.id + " is neither text nor a number: give each word as an argument of its own");
      }
    });
    return list.length ? {...options, _: list.map(Text)} : options;
  }
  if (list.length > parameters.length) {
    throw invalid(tool, parameters.length ? tool.id + " takes " + parameters.length + " arguments, not " + list.length : tool.id + " takes its arguments by name, in one object");
  }
  const values = {...options};
  list.forEach((value, i) => define(values, parameters[i].name, value));
  return checked(tool, values);
}

function checked(tool, values) {
  const parameters = tool.parameters;
  if (!tool.open) {
    const given = keysOf(values);
    for (let i = 0; i < given.length; i++) if (parameters[i]?.name !== given[i] && !parameter(tool, given[i])) throw invalid(tool, tool.id + " has no argument " + given[i]);
  }
  for (let i = 0; i < parameters.length; i++) {
    if (parameters[i].required && values[parameters[i].name] === undefined) throw invalid(tool, tool.id + " needs the argument " + parameters[i].name);
  }
  return values;
}

function callTool(tool, values = {}) {
  const id = tool?.id ?? tool;
  if (typeof id !== "string") throw new TypeError('the first argument is the tool\'s id, for example call_tool("github:create_issue", {title: "Bug fix"})');
  if (!isPlain(values)) throw new TypeError('the arguments are one object, for example call_tool("' + id + '", {title: "Bug fix"})');
  return requestAsync(kinds.call, id, {tool: id, arguments: values});
}

// commandLine adds methods that read a program's output to the promise of its result.
function commandLine(promise) {
  promise.text = () => promise.then((r) => r.stdout);
  promise.lines = () => promise.then((r) => r.stdout.split("\n").filter((line, i, all) => line !== "" || i < all.length - 1));
  promise.json = () => promise.then((r) => parseJSON(r.stdout));
  return promise;
}

function callable(tool) {
  const call = (...list) => {
    let promise;
    try {
      promise = requestAsync(kinds.call, tool.id, {tool: tool.id, arguments: argumentsByName(tool, list)});
    } catch (e) {
      promise = PlainPromise.reject(e);
    }
    return tool.kind === "cli" ? commandLine(promise) : promise;
  };
  return defineProperty(call, "id", {value: tool.id});
}

// listed maps paths to a tool, or to true if there are tools below. The server may have
// sent all tools at once; if not, findTool asks for the paths that the program uses.
let listed = {};

function lookUp(path) {
  if (!hasOwn(listed, path)) {
    const text = findTool?.(path);
    listed[path] = text && parseJSON(text);
  }
  return listed[path];
}

// newNamespace returns a namespace, which makes its members on first use. For a name
// without a tool, the server reports the error. Namespaces of tools can be called, because a program
// may have the whole id of a tool in a variable: tools[id]({…}).
function newNamespace(path) {
  const node = createObject(new Proxy(createObject(null), {
    get(_, name) {
      if (typeof name !== "string" || name === "then" || name === "toJSON") return undefined;
      const full = path + "." + name;
      const found = lookUp(full);
      let member;
      if (typeof found === "object") member = callable(found);
      else if (path === "cli") member = program(full, name);
      else if (path === "tools" || path === "mcp") member = bare((...list) => callTool(name, ...list), newNamespace(full));
      else if (found) member = newNamespace(full);
      else member = callable(unlisted(path, name));
      node[name] = member;
      return member;
    },
  }));
  return node;
}

// program returns a namespace of a command-line program, which is also a function that
// calls the program itself.
function program(path, name) {
  const itself = callable({id: name + ":" + name, path: [name, name], kind: "cli", parameters: [], open: true});
  const call = (...list) => itself(...list);
  return bare(call, newNamespace(path));
}

// bare makes a namespace out of a function: it removes the members of a function.
function bare(call, namespace) {
  delete call.name;
  delete call.length;
  return setPrototypeOf(call, namespace);
}

function unlisted(path, name) {
  const steps = path.split("."), root = steps[0];
  if (root === "tools" || root === "mcp" || root === "cli") steps.shift();
  const namespace = steps.join(".");
  return {id: namespace + ":" + name, path: [...steps, name], kind: root, parameters: [], open: true};
}

const tools = newNamespace("tools");
const mcp = newNamespace("mcp");
const cli = bare((program) => cli[program], newNamespace("cli"));

function addTools(list) {
  for (let i = 0; i < list.length; i++) {
    const tool = list[i];
    addTool("tools." + tool.path.join("."), tool);
    for (let k = 0; k < tool.globals.length; k++) {
      const path = tool.globals[k], first = path[0];
      addTool(path.join("."), tool);
      if (first !== "tools" && first !== "mcp" && first !== "cli") addGlobal(first);
    }
  }
}

// addGlobal makes a friendly name a global variable, whose value is made on first use.
function addGlobal(name) {
  if (hasOwn(globalThis, name)) return;
  const define = (value) => defineProperty(globalThis, name, {value, writable: true, enumerable: true, configurable: true});
  defineRunGlobal(name, {
    get() {
      const found = lookUp(name);
      runGlobals[name] = typeof found === "object" ? callable(found) : newNamespace(name);
      define(runGlobals[name]);
      return runGlobals[name];
    },
    set: define, enumerable: true, configurable: true,
  });
}

function addTool(path, tool) {
  listed[path] = tool;
  for (let end = path.lastIndexOf("."); end > 0; end = path.lastIndexOf(".", end - 1)) listed[path.slice(0, end)] ??= true;
}

async function artifact(handle) {
  const id = typeof handle === "string" ? handle : handle?.id ?? handle?.handle;
  if (typeof id !== "string") throw new TypeError('pass the handle, for example artifacts.get("art_1")');
  const parts = [];
  let length = 0, size = 0, media_type = "";
  do {
    const part = await requestAsync(kinds.get, "artifacts.get", {handle: id, offset: length, length: 0});
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

const globals = {
  tools, mcp, cli, ToolError, Handle,
  call_tool: callTool,
  run(id, values = {}) {
    return requestSync(kinds.call, id, {tool: id, arguments: values});
  },
  run_chain: (steps) => requestAsync(kinds.chain, "run_chain", {steps}),
  search_tools(query, options) {
    return requestAsync(kinds.search, "search_tools", {query, limit: typeof options === "object" ? options?.limit : options});
  },
  describe_tool(tool, options) {
    return requestAsync(kinds.describe, "describe_tool", {tool: tool?.id ?? tool, level: (typeof options === "object" ? options?.level : options) ?? "schema"});
  },
  artifacts: freeze({
    put(name, content, mediaType) {
      return requestAsync(kinds.put, "artifacts.put", {name, data: content ?? null, media_type: mediaType});
    },
    get: async (handle) => (await artifact(handle)).bytes,
  }),
  results: freeze({
    async get(handle) {
      const {bytes, media_type} = await artifact(handle);
      const text = utf8(bytes);
      return media_type.includes("json") ? parseJSON(text) : text;
    },
  }),
  progress(done, total, message = "") { flush(); send(kinds.progress, {done: +done || 0, total: +total || 0, message: Text(message)}); },
  log(message, level = "info", fields = {}) { flush(); send(kinds.log, {level: Text(level), message: Text(message), fields}); },
  print: (...list) => print("stdout", list.map(show).join(" ") + "\n"),
};

function show(v) {
  return typeof v === "string" ? v : inspect(v, 0, []);
}

// inspect formats a value for people. It never throws, and limits its own work.
function inspect(v, depth, above) {
  if (typeof v === "string") return JSON.stringify(v);
  if (typeof v === "bigint") return v + "n";
  if (typeof v === "function") return "[function " + (hasOwn(v, "name") && v.name || "anonymous") + "]";
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
globals.console = {
  log: toOut, info: toOut, debug: toOut, dir: toOut, table: toOut, warn: toErr, error: toErr, trace: toErr,
  assert(ok, ...list) { if (!ok) toErr("Assertion failed", ...list); },
};

// Timers: those that are due run when the engine reports that time has passed.
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

globals.setTimeout = (handler, delay, ...list) => schedule(false, handler, delay, list);
globals.setInterval = (handler, delay, ...list) => schedule(true, handler, delay, list);
globals.clearTimeout = globals.clearInterval = (id) => { timers.delete(id); setAlarm(); };

globals.TextEncoder = class TextEncoder {
  get encoding() { return "utf-8"; }
  encode(text = "") { return encodeText(Text(text).toWellFormed()); }
};
globals.TextDecoder = class TextDecoder {
  get encoding() { return "utf-8"; }
  decode(bytes = new Bytes()) { return utf8(bytes instanceof Bytes ? bytes : isView(bytes) ? new Bytes(bytes.buffer, bytes.byteOffset, bytes.byteLength) : new Bytes(bytes)); }
};

function someRandom(n) {
  status[2] = n;
  return randomBytes();
}

globals.crypto = freeze({
  getRandomValues(array) {
    if (array.byteLength > 65536) throw new RangeError("at most 65536 bytes of random values at once");
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

// All runs start from one image, with one random state, so each run seeds its own
// generator with random bytes of the server. The generator is xorshift128+.
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

for (const name of keysOf(globals)) defineProperty(globalThis, name, {value: globals[name], writable: true, enumerable: false, configurable: true});
