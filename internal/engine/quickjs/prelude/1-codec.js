// Values to and from the server: as JSON, which the engine itself reads and writes,
// if that loses nothing; otherwise as CBOR, which is slower here.

const hostFunctions = __hostFunctions;
const {send: sendFrame, text: decodeText, encoded: encodeText, random: randomBytes, await: awaitFrame, tool: findTool, settled: settledValue} = hostFunctions;
// Elements of status: open requests, next timer, two arguments of host functions.
const status = hostFunctions.status = new Int32Array(16);
status[1] = -1;

// Keep builtins that the program may patch.
const {isArray, from: arrayFrom} = Array;
const {keys: keysOf, getOwnPropertyDescriptor: describeProperty, getPrototypeOf, setPrototypeOf, defineProperty, create: createObject, freeze, hasOwn} = Object;
const {isInteger, isSafeInteger, MAX_SAFE_INTEGER} = Number;
const {fromCharCode} = String;
const {isView} = ArrayBuffer;
const apply = Reflect.apply;
const objectPrototype = Object.prototype, datePrototype = Date.prototype;
const {parse: parseJSON, stringify: writeJSON} = JSON;
const subarray = Uint8Array.prototype.subarray, setBytes = Uint8Array.prototype.set, fromHex = Uint8Array.fromHex;
const PlainPromise = Promise, PlainError = Error, SyntaxProblem = SyntaxError, PlainDate = Date, Bytes = Uint8Array, Big = BigInt, Text = String;
const PlainMap = Map, PlainSet = Set;

class Handle {
  constructor(id, mediaType, size) {
    this.id = id;
    this.media_type = mediaType;
    this.size = size;
  }
  toString() { return this.id; }
}

// ValueProblem says which part of a value cannot cross the bridge.
class ValueProblem extends PlainError {}

const maxNesting = 100, maxValue = 16 * 1024 * 1024 - 4096;

// isSimple reports whether JSON represents v exactly. writeValue handles all other
// values, and reports those that cannot be sent.
let visited = 0;
function isSimple(v, depth) {
  switch (typeof v) {
    case "string": return (visited += v.length >> 4) < 1000000 && v.isWellFormed();
    case "number": return v - v === 0;
    case "boolean": case "undefined": return true;
    case "object": break;
    default: return false;
  }
  if (v === null) return true;
  if (depth > maxNesting || ++visited > 1000000) return false;
  if (isArray(v)) {
    for (let i = 0; i < v.length; i++) if (!isSimple(v[i], depth + 1)) return false;
    return true;
  }
  const prototype = getPrototypeOf(v);
  if (prototype !== objectPrototype && prototype !== null || v.toJSON !== undefined) return false;
  const names = keysOf(v);
  for (let i = 0; i < names.length; i++) if (!isSimple(v[names[i]], depth + 1)) return false;
  return true;
}

function simple(v) {
  visited = 0;
  try {
    return isSimple(v, 0);
  } catch (e) {
    return false;
  }
}

let buffer = new Bytes(4096), view = new DataView(buffer.buffer), at = 0;
let trail = [], parents = [];

function tooLarge() {
  throw new ValueProblem("the value is larger than the " + maxValue + " bytes that cross the bridge at once: keep it as an artifact (artifacts.put) and give back the handle");
}

function reserve(n) {
  if (at + n <= buffer.length) return;
  if (at + n > maxValue) tooLarge();
  let size = buffer.length * 2;
  while (size < at + n) size *= 2;
  const larger = new Bytes(size);
  apply(setBytes, larger, [apply(subarray, buffer, [0, at])]);
  buffer = larger;
  view = new DataView(buffer.buffer);
}

function writeHead(major, n) {
  reserve(9);
  if (n < 24) {
    buffer[at++] = major | n;
  } else if (n < 256) {
    buffer[at++] = major | 24;
    buffer[at++] = n;
  } else if (n < 65536) {
    buffer[at++] = major | 25;
    buffer[at++] = n >> 8;
    buffer[at++] = n;
  } else if (n < 4294967296) {
    buffer[at++] = major | 26;
    view.setUint32(at, n);
    at += 4;
  } else {
    buffer[at++] = major | 27;
    view.setUint32(at, n / 4294967296);
    view.setUint32(at + 4, n);
    at += 8;
  }
}

// Half a surrogate pair is not valid text. Text that people read shows it as U+FFFD; a
// value is never changed silently, so it is an error there.
let shown = false;
function writeText(s) {
  if (s.length > maxValue) tooLarge();
  if (!s.isWellFormed()) {
    if (!shown) fail("text with half a surrogate pair, which cannot be sent");
    s = s.toWellFormed();
  }
  writeData(0x60, encodeText(s));
}

function writeData(major, bytes) {
  writeHead(major, bytes.length);
  reserve(bytes.length);
  apply(setBytes, buffer, [bytes, at]);
  at += bytes.length;
}

function writeFloat(n) {
  reserve(9);
  buffer[at++] = 0xfb;
  view.setFloat64(at, n);
  at += 8;
}

function writeBig(n) {
  let tag = 2;
  if (n < 0n) {
    tag = 3;
    n = -1n - n;
  }
  if (n < 0x8000000000000000n) {
    reserve(9);
    buffer[at++] = (tag === 3 ? 0x20 : 0) | 27;
    view.setBigUint64(at, n);
    at += 8;
    return;
  }
  let hex = n.toString(16);
  if (hex.length > 131072) fail("an integer of more than 64 KiB");
  if (hex.length & 1) hex = "0" + hex;
  writeHead(0xc0, tag);
  writeData(0x40, fromHex(hex));
}

function pathTo(depth) {
  let path = "";
  for (let i = 0; i < depth; i++) {
    const key = trail[i];
    path += typeof key === "number" ? "[" + key + "]" : /^[A-Za-z_$][\w$]*$/.test(key) ? (path && ".") + key : "[" + JSON.stringify(key) + "]";
  }
  return path;
}

let level = 0;
function fail(what) {
  throw new ValueProblem((pathTo(level) || "the value") + " is " + what);
}

function writeValue(v, depth) {
  level = depth;
  switch (typeof v) {
    case "undefined":
      reserve(1);
      buffer[at++] = 0xf6;
      return;
    case "boolean":
      reserve(1);
      buffer[at++] = v ? 0xf5 : 0xf4;
      return;
    case "number":
      if (isSafeInteger(v)) {
        if (v >= 0) writeHead(0, v);
        else writeHead(0x20, -1 - v);
      } else if (v !== v || v === Infinity || v === -Infinity) {
        fail(v + ", which cannot be sent; use null or a text instead");
      } else {
        writeFloat(v);
      }
      return;
    case "string":
      return writeText(v);
    case "bigint":
      return writeBig(v);
    case "function":
      fail("a function, which cannot be sent; call it, or leave it out");
    case "symbol":
      fail("a symbol, which cannot be sent");
  }
  if (v === null) {
    reserve(1);
    buffer[at++] = 0xf6;
    return;
  }
  if (depth >= maxNesting) fail("nested deeper than " + maxNesting);
  for (let i = 0; i < depth; i++) if (parents[i] === v) fail("the value that holds it (" + (pathTo(i) || "the whole value") + "): a value cannot hold itself");
  parents[depth] = v;
  try {
    writeObject(v, depth);
  } finally {
    parents[depth] = undefined;
  }
}

function writeObject(v, depth) {
  if (isArray(v)) {
    const n = v.length;
    writeHead(0x80, n);
    for (let i = 0; i < n; i++) {
      trail[depth] = i;
      writeValue(read(v, i, depth), depth + 1);
    }
    return;
  }
  const prototype = getPrototypeOf(v);
  if (prototype !== objectPrototype && prototype !== null) {
    if (v instanceof PlainDate) {
      if (isNaN(v)) fail("an invalid Date");
      writeHead(0xc0, 0);
      return writeText(apply(datePrototype.toISOString, v, []));
    }
    if (v instanceof Bytes || v instanceof Uint8ClampedArray) return writeData(0x40, v);
    if (v instanceof ArrayBuffer) return writeData(0x40, new Bytes(v));
    if (isView(v)) return v instanceof DataView ? writeData(0x40, new Bytes(v.buffer, v.byteOffset, v.byteLength)) : writeObject(arrayFrom(v), depth);
    if (v instanceof Handle) {
      writeHead(0xc0, 39);
      return writeObject({handle: v.id, media_type: v.media_type, size: v.size}, depth);
    }
    if (v instanceof PlainPromise) fail("a promise: write await before the call that made it");
    if (v instanceof PlainMap) return writeMap(v, depth);
    if (v instanceof PlainSet) return writeObject(arrayFrom(v), depth);
    if (v instanceof PlainError) return writeObject({name: Text(v.name), message: Text(v.message)}, depth);
    if (v instanceof Number || v instanceof Text || v instanceof Boolean) return writeValue(v.valueOf(), depth);
  }
  // A frame's body, at depth 0, is never the program's, which may give all objects a toJSON.
  const toJSON = depth > 0 && read(v, "toJSON", depth);
  if (typeof toJSON === "function") {
    let plain;
    try {
      plain = apply(toJSON, v, []);
    } catch (e) {
      fail("an object whose toJSON threw " + e);
    }
    if (plain !== v) return writeValue(plain, depth + 1);
  }
  let names;
  try {
    names = keysOf(v);
  } catch (e) {
    fail("an object that cannot be read: it threw " + e);
  }
  let count = 0;
  const values = [];
  for (let i = 0; i < names.length; i++) {
    trail[depth] = names[i];
    const item = read(v, names[i], depth + 1);
    if (item === undefined) continue;
    names[count] = names[i];
    values[count++] = item;
  }
  writeHead(0xa0, count);
  for (let i = 0; i < count; i++) {
    trail[depth] = names[i];
    level = depth + 1;
    writeText(names[i]);
    writeValue(values[i], depth + 1);
  }
}

function writeMap(map, depth) {
  const plain = createObject(null);
  for (const [key, value] of map) {
    if (typeof key !== "string" && typeof key !== "number") fail("a Map with a key that is neither text nor number");
    define(plain, Text(key), value);
  }
  writeObject(plain, depth);
}

function read(v, key, depth) {
  try {
    return v[key];
  } catch (e) {
    level = depth;
    if (typeof key === "number") level = depth + 1;
    fail("a property that cannot be read: it threw " + e);
  }
}

// define sets a member of any name, including __proto__.
function define(object, key, value) {
  if (key === "__proto__") defineProperty(object, key, {value, writable: true, enumerable: true, configurable: true});
  else object[key] = value;
}

let data, pos;

function readHead(info) {
  if (info < 24) return info;
  switch (info) {
    case 24: return data[pos++];
    case 25: return data[pos++] << 8 | data[pos++];
    case 26: {
      const n = ((data[pos] << 24 | data[pos + 1] << 16 | data[pos + 2] << 8 | data[pos + 3]) >>> 0);
      pos += 4;
      return n;
    }
  }
  const high = readHead(26), low = readHead(26);
  if (high > 0x1fffff) return Big(high) << 32n | Big(low);
  return high * 4294967296 + low;
}

function readText(n) {
  status[2] = pos;
  status[3] = pos += n;
  return decodeText(data);
}

function readValue() {
  const first = data[pos++], info = first & 31;
  switch (first >> 5) {
    case 0: return readHead(info);
    case 1: {
      const n = readHead(info);
      return typeof n === "bigint" ? -1n - n : n === MAX_SAFE_INTEGER ? -1n - Big(n) : -1 - n;
    }
    case 2: return readBytes(readHead(info));
    case 3: return readText(readHead(info));
    case 4: {
      const n = readHead(info), list = [];
      for (let i = 0; i < n; i++) list[i] = readValue();
      return list;
    }
    case 5: {
      const n = readHead(info), object = {};
      for (let i = 0; i < n; i++) {
        const key = readText(readHead(data[pos++] & 31));
        define(object, key, readValue());
      }
      return object;
    }
    case 6: return readTagged(readHead(info));
  }
  switch (info) {
    case 20: return false;
    case 21: return true;
    case 27: {
      const n = new DataView(data.buffer, data.byteOffset + pos, 8).getFloat64(0);
      pos += 8;
      return n;
    }
  }
  return null;
}

function readBytes(n) {
  const bytes = new Bytes(n);
  apply(setBytes, bytes, [apply(subarray, data, [pos, pos + n])]);
  pos += n;
  return bytes;
}

function readTagged(tag) {
  const v = readValue();
  switch (tag) {
    case 0: return new PlainDate(v);
    case 2: case 3: {
      const n = Big("0x" + (v.toHex() || "0"));
      return tag === 2 ? n : -1n - n;
    }
    case 39: return new Handle(v.handle, v.media_type, v.size);
  }
  return v;
}
