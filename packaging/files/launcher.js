#!/usr/bin/env node
// Starts the toolroom program of the package for this platform, which npm has installed
// as an optional dependency.
"use strict";
const { spawn } = require("node:child_process");
const path = require("node:path");
const os = require("node:os");

const name = `@toolroom/${process.platform}-${process.arch}`;
let manifest;
try {
  manifest = require.resolve(`${name}/package.json`);
} catch {
  console.error(`toolroom: the package ${name} is not installed.`);
  console.error("Either there are no programs for this platform, or optional dependencies were left out:");
  console.error("install again without --omit=optional (--no-optional).");
  process.exit(2);
}
const program = path.join(path.dirname(manifest), "bin", process.platform === "win32" ? "toolroom.exe" : "toolroom");
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`toolroom: ${program} cannot be started: ${error.message}`);
  process.exit(2);
});
// A terminal sends Ctrl-C to both processes. Other signals reach only this one.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => process.exit(code ?? 128 + os.constants.signals[signal]));
