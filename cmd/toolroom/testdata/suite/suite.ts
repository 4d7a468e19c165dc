// toolroom:
//   secrets: [shop/token]
//   config: {greeting: hello}
//   limits: {memory_bytes: 60000000}
import {type Context, Image} from "toolroom";

const kept: string[] = [];

class Own extends Error {
  name = "Own";
}

function inner(): never {
  throw new Own("the reason");
}

export function echo(v: unknown): unknown {
  return v;
}

export function defaults(a: bigint, b: "x" | "y" = "y"): string {
  return `${a}${b}`;
}

export function picture(): Image {
  return new Image(new Uint8Array([0x89, 0x50, 0x4e, 0x47]), "image/png");
}

export function boom() {
  inner();
}

export function nan() {
  return {a: [NaN]};
}

export function cycle() {
  const a: unknown[] = [];
  a.push(a);
  return a;
}

export function surrogate() {
  return "\ud800";
}

export function wrong(): number {
  return "text" as unknown as number;
}

export function big(): bigint {
  return 2n ** 63n;
}

export function huge() {
  return "x".repeat(100_000_000);
}

export function* count(n: number): Generator<number> {
  for (let i = 0; i < n; i++) yield i;
}

export function add(a: number, b: number): number {
  return a + b;
}

export async function sum_all(values: number[], context: Context): Promise<number> {
  let total = 0;
  for (const v of values) total = await context.tools.fn.add({a: total, b: v});
  return total;
}

export async function itself(context: Context): Promise<number> {
  return await context.callTool("fn:itself");
}

export function forever() {
  for (;;);
}

export const token_length = (context: Context): number => context.secrets["shop/token"].length;

export const tell = (context: Context): string => context.secrets["shop/token"];

export const undeclared = (context: Context): string => context.secrets["shop/other"];

export function about(context: Context): {greeting: string; env: string; call: string} {
  return {greeting: context.config.greeting, env: context.environment, call: context.callId.slice(0, 5)};
}

export function report(context: Context) {
  context.progress(1, 2, "half");
  context.log("careful", "warning");
}

export async function keep(context: Context): Promise<string> {
  const handle = await context.artifacts.put("a.txt", new TextEncoder().encode("abc"), "text/plain");
  return new TextDecoder().decode(await context.artifacts.get(handle));
}

export function leak(secret: string): string[] {
  console.error("the log of", secret);
  const everywhere = globalThis as any;
  const found = [...kept, ...(everywhere.leaked ?? []), ...((Array.prototype as any).leaked ?? []), ...((JSON as any).leaked ?? [])];
  kept.push(secret);
  everywhere.leaked = [secret];
  (JSON as any).leaked = [secret];
  Object.defineProperty(Array.prototype, "leaked", {value: [secret]});
  setTimeout(() => kept.push("late"), 1);
  return found.filter((f) => !f.includes(secret));
}

export function flood() {
  for (;;) console.log("x".repeat(100_000));
}

export function hog() {
  const all: unknown[] = [];
  for (;;) all.push(new Uint8Array(1_000_000).fill(1));
}
