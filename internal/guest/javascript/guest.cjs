// Runs one program over the Toolroom bridge, on Node or Deno. The stream is file
// descriptor TOOLROOM_BRIDGE_FD (3). The prelude beside this file does the rest, with
// the host functions defined here.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");
const {Socket} = require("node:net");
const {createRequire} = require("node:module");
const {randomBytes, createCipheriv, createHash} = require("node:crypto");

const fd = Number(process.env.TOOLROOM_BRIDGE_FD || 3);
delete process.env.TOOLROOM_BRIDGE_FD;

// Deno numbers its own descriptors, and can read others only through libc.
const io = typeof Deno === "undefined" ? fs : libc();

function libc() {
  const {symbols} = Deno.dlopen("libc.so.6", {
    poll: {parameters: ["buffer", "usize", "i32"], result: "i32"},
    read: {parameters: ["i32", "buffer", "usize"], result: "isize"},
    write: {parameters: ["i32", "buffer", "usize"], result: "isize"},
  });
  const POLLIN = 1, POLLOUT = 4;
  // move waits until the stream is ready, then reads or writes as much as it accepts.
  const move = (operate, events, fd, bytes) => {
    const entry = new Int16Array(new Int32Array([fd, events]).buffer); // struct pollfd
    const ready = symbols.poll(entry, 1n, -1) === 1 && entry[3] & events;
    const n = ready ? Number(operate(fd, bytes, BigInt(bytes.length))) : -1;
    if (n < 0) throw new Error("the stream is broken");
    return n;
  };
  return {
    readSync: (fd, bytes) => move(symbols.read, POLLIN, fd, bytes),
    writeSync: (fd, bytes, at) => move(symbols.write, POLLOUT, fd, bytes.subarray(at)),
  };
}

const DONE = 30, FAILED = 31, START = 32;

// Methods that the prelude uses and older engines lack.
function supply(object, name, value) {
  if (!(name in object)) Object.defineProperty(object, name, {value, writable: true, configurable: true});
}
supply(Uint8Array, "fromHex", (text) => new Uint8Array(Buffer.from(text, "hex")));
supply(Uint8Array, "fromBase64", (text) => new Uint8Array(Buffer.from(text, "base64")));
supply(Uint8Array.prototype, "toHex", function toHex() {
  return Buffer.from(this.buffer, this.byteOffset, this.byteLength).toString("hex");
});
supply(String.prototype, "toWellFormed", function toWellFormed() {
  return Buffer.from(this, "utf8").toString("utf8");
});
supply(String.prototype, "isWellFormed", function isWellFormed() {
  return this.toWellFormed() === String(this);
});

// Waiting, in case the stream does not block.
const {wait} = Atomics;
const still = new Int32Array(new SharedArrayBuffer(4));
let naps = 0;
function nap() {
  wait(still, 0, 0, naps++ < 100 ? 0.05 : 1);
}

function whole(operate) {
  for (;;) {
    try {
      naps = operate() > 0 ? 0 : naps;
      return;
    } catch (e) {
      if (e.code !== "EAGAIN") process.exit(1); // the server is gone
      nap();
    }
  }
}

let pending = Buffer.alloc(0);

// nextFrame takes a complete frame from pending, or returns null.
function nextFrame() {
  if (pending.length < 4) return null;
  const end = 4 + pending.readUInt32BE(0);
  if (pending.length < end) return null;
  let at = 5; // after the length and the head of an array of four
  const number = () => {
    const info = pending[at++] & 31;
    if (info < 24) return info;
    const size = 1 << (info - 24);
    at += size;
    return size === 8 ? Number(pending.readBigUInt64BE(at - 8)) : pending.readUIntBE(at - size, size);
  };
  const kind = number(), id = number(), length = number();
  const frame = {kind, id, token: pending.subarray(at, at + length), body: new Uint8Array(pending.subarray(at + length, end))};
  pending = pending.subarray(end);
  return frame;
}

function head(major, n) {
  if (n < 24) return Buffer.from([major | n]);
  if (n < 256) return Buffer.from([major | 24, n]);
  const long = Buffer.alloc(5, major | 26);
  long.writeUInt32BE(n, 1);
  return long;
}

let token = Buffer.alloc(0), ended = false, rehearsed;

function send(content) {
  if (ended) return;
  const kind = status[3];
  if (rehearsed) return rehearsed();
  const frame = Buffer.concat([
    Buffer.alloc(4), Buffer.from([0x84]), head(0, kind), head(0, status[4]), head(0x40, token.length), token, content.subarray(0, status[2]),
  ]);
  frame.writeUInt32BE(frame.length - 4, 0);
  for (let at = 0; at < frame.length;) whole(() => (at += io.writeSync(fd, frame, at)));
  if (kind === DONE || kind === FAILED) {
    ended = true;
    setImmediate(() => process.exit(0));
  }
}

function awaitFrame() {
  const chunk = Buffer.alloc(65536);
  for (;;) {
    const frame = nextFrame();
    if (frame) {
      status[2] = frame.kind;
      status[3] = frame.id;
      return frame.body;
    }
    whole(() => {
      const n = io.readSync(fd, chunk);
      if (n === 0) process.exit(1);
      pending = Buffer.concat([pending, chunk.subarray(0, n)]);
      return n;
    });
  }
}

// Runs with the same seed draw the same numbers.
let seeded;

const hostFunctions = {
  binary: true, // no JSON: V8 writes CBOR fast enough
  send,
  text: (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset + status[2], status[3] - status[2]).toString("utf8"),
  encoded: (text) => new Uint8Array(Buffer.from(text, "utf8")),
  random: () => new Uint8Array(seeded ? seeded.update(Buffer.alloc(status[2])) : randomBytes(status[2])),
  seed: (bytes) => { seeded = createCipheriv("aes-256-ctr", createHash("sha256").update(bytes).digest(), Buffer.alloc(16)); },
  await: awaitFrame,
};

const {setTimeout: later, clearTimeout: never, setInterval: every, clearInterval: neverAgain} = globalThis;
// guarded returns a timer whose handler's errors end the program as any other error does.
function guarded(start) {
  const timer = (handler, ...rest) => start(typeof handler !== "function" ? handler : (...list) => {
    try {
      return handler(...list);
    } catch (e) {
      hostFunctions.fault(e);
    }
  }, ...rest);
  return Object.defineProperties(timer, Object.getOwnPropertyDescriptors(start));
}

const script = {filename: "<input>"};
const loader = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;
if (loader) script.importModuleDynamically = loader;
// The author's text is evaluated under the name <input>, which stack traces show.
const ownEval = globalThis.eval;
globalThis.eval = (source) => new vm.Script(source, script).runInThisContext();
globalThis.__hostFunctions = hostFunctions;
vm.runInThisContext(fs.readFileSync(path.join(__dirname, "prelude.js"), "utf8"), {filename: "toolroom:prelude"});
delete globalThis.__hostFunctions;
// Packages, and Node's own fetch, use the objects that Node's timers are.
Object.assign(globalThis, {setTimeout: guarded(later), clearTimeout: never, setInterval: guarded(every), clearInterval: neverAgain});
globalThis.eval = ownEval;
globalThis.require = createRequire(path.join(process.cwd(), "main.js"));
const {ready} = require("./packages.cjs");
const status = hostFunctions.status;

const stream = new Socket({fd, readable: true, writable: false});
let alarm;

// settle sets up waiting for whatever the program awaits.
function settle() {
  if (ended) return;
  if (status[0] > 0 || !token.length) stream.ref();
  else stream.unref();
  never(alarm);
  if (status[1] >= 0) alarm = later(() => deliver(undefined), status[1]);
}

function deliver(body) {
  hostFunctions.deliver(body);
  setImmediate(settle);
}

stream.on("data", (chunk) => {
  pending = pending.length ? Buffer.concat([pending, chunk]) : chunk;
  for (let frame = nextFrame(); frame; frame = nextFrame()) {
    if (frame.kind === START) token = Buffer.from(frame.token);
    status[2] = frame.kind;
    status[3] = frame.id;
    deliver(frame.body);
  }
});
stream.on("close", () => process.exit(1));
// An unhandled rejection is the program's own business.
process.on("unhandledRejection", () => {});
// rehearse runs what every program runs, so that a waiting process has compiled it before
// its program comes. What it sends goes nowhere.
function rehearse(then) {
  const text = (s) => Buffer.concat([head(0x60, Buffer.byteLength(s)), Buffer.from(s)]);
  const body = Buffer.concat([
    head(0xa0, 3), text("source"), text("(async()=>{return [{}, [1, 1.5, 'x', null, true]]\n})"), text("limits"), head(0xa0, 0),
    text("inputs"), head(0xa0, 1), text("__rehearsal__"), head(0xa0, 0),
  ]);
  rehearsed = () => {
    rehearsed = undefined;
    delete globalThis.__rehearsal__;
    then();
  };
  status[2] = START;
  status[3] = 0;
  hostFunctions.deliver(new Uint8Array(body));
}

// A guest that prepares this interpreter before the program comes waits for a byte.
if (process.env.TOOLROOM_HOLD) {
  delete process.env.TOOLROOM_HOLD;
  ready.then(() => rehearse(() => whole(() => io.writeSync(fd, Buffer.from("!"), 0))));
}
// Nothing remains that could settle what the program awaits.
process.on("beforeExit", () => {
  if (!ended && token.length) hostFunctions.deliver(null);
});
