// Loads the packages that are not part of a program's text, from the folder of its layer,
// and ahead of the program, modules of Node. A key is the importing folder in the layer and
// the name, with | between.
"use strict";

const path = require("node:path");
const {createRequire} = require("node:module");
const {pathToFileURL} = require("node:url");

const layer = process.env.TOOLROOM_LAYER, ahead = process.env.TOOLROOM_PRELOAD;
delete process.env.TOOLROOM_LAYER;
delete process.env.TOOLROOM_PRELOAD;

const loaded = new Map();

function find(key) {
  if (key.startsWith("|node:")) return [require, key.slice(1)];
  if (!layer) throw new Error("this sandbox does not show the packages of the tool");
  const [importer, name] = key.split("|");
  return [createRequire(path.join(layer, importer, "main.js")), name];
}

function load(key) {
  if (!loaded.has(key)) {
    const [require, name] = find(key);
    loaded.set(key, require(name));
  }
  return loaded.get(key);
}

// loadAll loads packages before a program that uses them begins: older versions of Node
// cannot load ES modules later.
async function loadAll(keys) {
  for (const key of keys) {
    try {
      load(key);
    } catch (e) {
      if (e.code !== "ERR_REQUIRE_ESM") throw e;
      const [require, name] = find(key);
      loaded.set(key, await import(pathToFileURL(require.resolve(name)).href));
    }
  }
}

for (const [name, value] of [["__toolroom_load__", load], ["__toolroom_load_all__", loadAll]]) {
  Object.defineProperty(globalThis, name, {value});
}

// ready is settled when the packages that are to be loaded ahead have been. The program
// loads one that failed again, and reports the error.
exports.ready = (async () => {
  for (const key of ahead ? JSON.parse(ahead) : []) await loadAll([key]).catch(() => {});
})();
