// toolroom:
//   secrets: [shop/token]
//   config: {greeting: hello}
//   limits: {memory_bytes: 60000000}
import {Image} from "toolroom";

const kept = [];

class Own extends Error {
  name = "Own";
}

function inner() {
  throw new Own("the reason");
}

/** A tool of the suite.
 * @param {*} v
 */
export function echo(v) {
  return v;
}

/** A tool of the suite.
 * @param {bigint} a
 * @param {"x" | "y"} [b="y"]
 * @returns {string}
 */
export function defaults(a, b = "y") {
  return `${a}${b}`;
}

export function picture() {
  return new Image(new Uint8Array([0x89, 0x50, 0x4e, 0x47]), "image/png");
}

export function boom() {
  inner();
}

export function nan() {
  return {a: [NaN]};
}

export function cycle() {
  const a = [];
  a.push(a);
  return a;
}

export function surrogate() {
  return "\ud800";
}

/** A tool of the suite.
 * @returns {number}
 */
export function wrong() {
  return "text";
}

/** A tool of the suite.
 * @returns {bigint}
 */
export function big() {
  return 2n ** 63n;
}

export function huge() {
  return "x".repeat(100_000_000);
}

/** A tool of the suite.
 * @param {number} n
 * @returns {Generator<number>}
 */
export function* count(n) {
  for (let i = 0; i < n; i++) yield i;
}

/** A tool of the suite.
 * @param {number} a
 * @param {number} b
 * @returns {number}
 */
export function add(a, b) {
  return a + b;
}

/** A tool of the suite.
 * @param {Array.<number>} values
 * @returns {Promise<number>}
 */
export async function sum_all(values, context) {
  let total = 0;
  for (const v of values) total = await context.tools.fn.add({a: total, b: v});
  return total;
}

export async function itself(context) {
  return await context.callTool("fn:itself");
}

export function forever() {
  for (;;);
}

/** A tool of the suite.
 * @returns {number}
 */
export const token_length = (context) => context.secrets["shop/token"].length;

export const tell = (context) => context.secrets["shop/token"];

export const undeclared = (context) => context.secrets["shop/other"];

export function about(context) {
  return {greeting: context.config.greeting, env: context.environment, call: context.callId.slice(0, 5)};
}

export function report(context) {
  context.progress(1, 2, "half");
  context.log("careful", "warning");
}

export async function keep(context) {
  const handle = await context.artifacts.put("a.txt", new TextEncoder().encode("abc"), "text/plain");
  return new TextDecoder().decode(await context.artifacts.get(handle));
}

/** A tool of the suite.
 * @param {string} secret
 * @returns {string[]}
 */
export function leak(secret) {
  console.error("the log of", secret);
  const everywhere = globalThis;
  const found = [...kept, ...(everywhere.leaked ?? []), ...(Array.prototype.leaked ?? []), ...(JSON.leaked ?? [])];
  kept.push(secret);
  everywhere.leaked = [secret];
  JSON.leaked = [secret];
  Object.defineProperty(Array.prototype, "leaked", {value: [secret]});
  setTimeout(() => kept.push("late"), 1);
  return found.filter((f) => !f.includes(secret));
}

export function flood() {
  for (;;) console.log("x".repeat(100_000));
}

export function hog() {
  const all = [];
  for (;;) all.push(new Uint8Array(1_000_000).fill(1));
}
