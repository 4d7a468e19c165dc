"use strict";
// Runs the install scripts of packages in a copy of the packages, in a sandbox, and prints the
// files of these packages that they changed: a line of JSON and the content for each.
const fs = require("fs"), path = require("path"), { spawnSync } = require("child_process");
const task = JSON.parse(process.argv[1]);
// What is built may name its folder, and must be the same when it is built again.
process.env.HOME = "/tmp/build";
fs.mkdirSync(process.env.HOME);
process.chdir(process.env.HOME);
fs.cpSync(task.layer, "packages", { recursive: true });
const done = spawnSync("npm", ["rebuild", "--ignore-scripts=false", "--foreground-scripts", "--offline", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--logs-max=0", "--cache=/tmp/npm", ...task.folders.map(at => "./" + at)], { cwd: "packages", stdio: ["ignore", 2, 2] });
if (done.error) {
  console.error(done.error.code === "ENOENT" ? "the sandbox has no npm: install Node.js with npm in the system's folders" : String(done.error));
  process.exit(1);
}
if (done.status !== 0) process.exit(done.status ?? 1);

function write(data) {
  for (let at = 0; at < data.length;) {
    try { at += fs.writeSync(1, data, at); } catch (e) { if (e.code !== "EAGAIN") throw e; }
  }
}
function print(at, top) {
  for (const entry of fs.readdirSync(path.join("packages", at), { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const name = at + "/" + entry.name, here = path.join("packages", name), before = path.join(task.layer, name);
    if (entry.isDirectory() && !(top && entry.name === "node_modules")) print(name, false);
    if (!entry.isFile()) continue;
    const data = fs.readFileSync(here), run = (fs.statSync(here).mode & 0o111) !== 0;
    const old = fs.lstatSync(before, { throwIfNoEntry: false });
    if (old && ((old.mode & 0o111) !== 0) === run && old.size === data.length && fs.readFileSync(before).equals(data)) continue;
    write(Buffer.from(JSON.stringify({ name, size: data.length, run }) + "\n"));
    write(data);
  }
}
for (const folder of task.folders) print(folder, true);
write(Buffer.from("{}\n"));
