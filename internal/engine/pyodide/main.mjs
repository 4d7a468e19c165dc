// Runs one program in Pyodide: the stream of the bridge is stdin and stdout.
// With the argument "snapshot" it writes the memory of an interpreter that is
// ready to stdout instead, which later starts begin from.
import { loadPyodide } from "./pyodide.mjs";

const folder = import.meta.dirname;
const read = (name) => Deno.readTextFileSync(`${folder}/${name}`);

function writeAll(data) {
  for (let done = 0; done < data.length;) done += Deno.stdout.writeSync(data.subarray(done));
}

// A thread reads stdin, so that the program can wait for it with a time limit. The
// counters are the numbers of bytes written to the ring and read from it; the third
// is 1 at the end of stdin.
const counters = new Int32Array(new SharedArrayBuffer(12));
const ring = new Uint8Array(new SharedArrayBuffer(1 << 20));
const [WRITTEN, READ, ENDED] = [0, 1, 2];

const unread = () => (Atomics.load(counters, WRITTEN) - Atomics.load(counters, READ)) | 0;

// wait waits up to maxMs milliseconds for bytes from the host, or for the end of stdin.
// It reports whether they came.
function wait(maxMs) {
  const end = performance.now() + maxMs;
  for (;;) {
    const written = Atomics.load(counters, WRITTEN);
    if (unread() !== 0 || Atomics.load(counters, ENDED)) return true;
    const left = end - performance.now();
    if (!(left > 0)) return false;
    Atomics.wait(counters, WRITTEN, written, left);
  }
}

function print(empty, raw) {
  const text = new TextEncoder().encode(new TextDecoder().decode(raw)); // invalid UTF-8 is replaced
  const frame = new Uint8Array(empty.length + 4 + text.length);
  frame.set(empty);
  const view = new DataView(frame.buffer);
  view.setUint32(0, frame.length - 4);
  view.setUint8(empty.length - 1, 0x7a); // a text with a length of four bytes
  view.setUint32(empty.length, text.length);
  frame.set(text, empty.length + 4);
  writeAll(frame);
  return raw.length;
}

const hostFunctions = {
  wait,
  sleep: (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
  write: writeAll,
  // take returns the available part of the next n bytes, or no bytes at the end of stdin.
  take(n) {
    wait(Infinity);
    const from = Atomics.load(counters, READ);
    const at = from & (ring.length - 1);
    const size = Math.min(unread(), n, ring.length - at);
    const data = ring.slice(at, at + size);
    Atomics.store(counters, READ, (from + size) | 0);
    Atomics.notify(counters, READ);
    return data;
  },
  limit(bytes) {
    limit = bytes;
  },
  // frames sets the frames that are sent without Python, when Python cannot run: output
  // that bypasses sys.stdout and sys.stderr is put into a frame with an empty text, and a
  // recursion that overflows JavaScript's stack ends the program with tooDeep.
  frames(stdout, stderr, deep) {
    python.setStdout({ write: (text) => print(stdout, text) });
    python.setStderr({ write: (text) => print(stderr, text) });
    tooDeep = deep;
  },
};

// The interpreter's memory grows up to the program's limit; it then gets a
// MemoryError.
let limit = Infinity;
const grow = WebAssembly.Memory.prototype.grow;
Object.defineProperty(WebAssembly.Memory.prototype, "grow", {
  value(pages) {
    if (this.buffer.byteLength + pages * 65536 > limit) throw new RangeError("the program's limit of memory");
    return grow.call(this, pages);
  },
});

let python, tooDeep;
if (Deno.args[0] === "snapshot") {
  python = await loadPyodide({ indexURL: folder, _makeSnapshot: true });
  python.globals.set("files", read("guest.json"));
  python.runPython(read("boot.py"), { filename: "<toolroom>/boot.py" });
  writeAll(python.makeMemorySnapshot());
} else {
  python = await loadPyodide({ indexURL: folder, _loadSnapshot: Deno.readFileSync(`${folder}/snapshot.bin`) });
  const reader = new Worker(new URL("./reader.mjs", import.meta.url), { type: "module" });
  await new Promise((ready) => {
    reader.onmessage = ready;
    reader.postMessage({ counters, ring });
  });
  // From here on the process has no permissions.
  await Deno.permissions.revoke({ name: "read" });
  try {
    python.globals.get("serve")(hostFunctions);
  } catch (error) {
    if (!(error instanceof RangeError && tooDeep)) throw error;
    writeAll(tooDeep);
  }
  Deno.exit(0);
}
