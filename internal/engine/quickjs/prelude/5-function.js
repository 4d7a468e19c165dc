// Calls a function tool: converts its arguments to objects, passes its context, and converts
// its result to a value.

const contentKey = "$toolroom.content", maxChunks = 1 << 20;

class Image {
  constructor(data, mediaType = "image/png") {
    this.data = data;
    this.mediaType = mediaType;
  }
}

function contextOf(given) {
  const secrets = new Proxy(freeze({...given.secrets}), {
    get(all, name) {
      if (typeof name !== "string" || hasOwn(all, name)) return all[name];
      throw new PlainError("the tool declares no secret " + JSON.stringify(name) + ": add it to secrets in its header or in tool.yaml");
    },
  });
  return {
    tools, callTool: callTool, artifacts: globals.artifacts, progress: globals.progress, log: globals.log, secrets,
    config: given.config ?? {}, callId: given.call ?? "", environment: given.environment ?? "", caller: given.caller ?? "",
  };
}

// convert makes an object from a JSON value, as the shape of its type demands.
function convert(value, shape, definitions) {
  if (value === null || value === undefined || !shape) return value;
  const inner = (item, of) => convert(item, of, definitions);
  if (shape === "date") {
    const date = new PlainDate(value);
    if (isNaN(date)) throw new TypeError(JSON.stringify(value) + " is no date");
    return date;
  }
  if (shape === "bigint") return typeof value === "number" ? Big(value) : value;
  if (shape === "bytes") return typeof value === "string" ? fromBase64(value) : value;
  if (shape.ref) return inner(value, definitions[shape.ref]);
  if (isArray(value)) {
    if (shape.set !== undefined) return new PlainSet(value.map((item) => inner(item, shape.set)));
    return shape.items ? value.map((item) => inner(item, shape.items)) : value;
  }
  if (typeof value !== "object") return value;
  if (shape.map !== undefined) return new PlainMap(keysOf(value).map((key) => [key, inner(value[key], shape.map)]));
  if (!shape.props) return value;
  const object = {};
  for (const key of keysOf(value)) define(object, key, inner(value[key], hasOwn(shape.props, key) ? shape.props[key] : shape.values));
  return object;
}

const fromBase64 = Uint8Array.fromBase64;

function callFunction(f, given) {
  const plan = given.plan, shapes = plan.shapes;
  if (typeof f !== "function") throw new TypeError("the tool is no function");
  const args = shapes ? convert(given.arguments, {props: shapes.props}, shapes.definitions ?? {}) : given.arguments;
  const list = (plan.positional ?? []).map((name) => (name === "*" ? args : name === plan.context ? contextOf(given) : hasOwn(args, name) ? args[name] : undefined));
  const result = f(...list);
  if (typeof result !== "object" || result === null) return result;
  if (typeof result.then === "function") return PlainPromise.resolve(result).then(toValue);
  return toValue(result);
}

function toValue(result) {
  if (typeof result !== "object" || result === null) return result;
  if (typeof result.next === "function") {
    if (typeof result[Symbol.asyncIterator] === "function") return collectStream(result);
    if (typeof result[Symbol.iterator] === "function") {
      const chunks = [];
      for (const chunk of result) emit(chunks, chunk);
      return chunks;
    }
  }
  if (result instanceof Image || result instanceof Bytes || result instanceof ArrayBuffer) return {[contentKey]: [part(result)]};
  if (isArray(result) && result.some((item) => item instanceof Image)) return {[contentKey]: result.map(part)};
  return result;
}

async function collectStream(results) {
  const chunks = [];
  for await (const chunk of results) emit(chunks, chunk);
  return chunks;
}

function emit(chunks, chunk) {
  if (chunks.length >= maxChunks) throw new ValueProblem("the generator yields more than " + maxChunks + " chunks");
  flush();
  send(kinds.log, {level: "chunk", message: "", fields: {value: chunk}});
  chunks.push(chunk);
}

function part(value) {
  if (value instanceof Image) return {data: value.data, media_type: value.mediaType};
  if (value instanceof Bytes || value instanceof ArrayBuffer) return {data: value, media_type: ""};
  return {text: Text(value)};
}

// The globals for the code that calls a function are made here, before the image is taken.
const functionGlobals = {
  __toolroom_call__: {value: callFunction, configurable: true},
  __toolroom_module_toolroom__: {value: freeze({Image, Handle, ToolError, tool: (f) => f}), configurable: true},
};

function prepareFunction() {
  for (const name in functionGlobals) defineProperty(globalThis, name, functionGlobals[name]);
}
