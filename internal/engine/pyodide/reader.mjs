// Reads stdin into a ring, for the thread that runs the program.
const [WRITTEN, READ, ENDED] = [0, 1, 2];

self.onmessage = ({ data: { counters, ring } }) => {
  self.onmessage = null;
  self.postMessage("ready");
  for (;;) {
    const written = Atomics.load(counters, WRITTEN);
    const seen = Atomics.load(counters, READ);
    const room = ring.length - ((written - seen) | 0);
    if (room === 0) {
      Atomics.wait(counters, READ, seen);
      continue;
    }
    const at = written & (ring.length - 1);
    const part = new Uint8Array(Math.min(room, ring.length - at, 1 << 16));
    const size = Deno.stdin.readSync(part);
    if (size === null) break;
    ring.set(part.subarray(0, size), at);
    Atomics.store(counters, WRITTEN, (written + size) | 0);
    Atomics.notify(counters, WRITTEN);
  }
  Atomics.store(counters, ENDED, 1);
  Atomics.notify(counters, WRITTEN);
};
