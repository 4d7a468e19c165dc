// One run, from the start frame to the last frame.

const evaluate = eval;

// In a session later runs see the variables of earlier runs. No run may declare a name
// in builtin. runGlobals are the global variables that each run gets anew: its tools and
// the names that it may not use.
let session = false, begun = false;
const builtin = createObject(null), runGlobals = createObject(null);
for (const name of Object.getOwnPropertyNames(globalThis)) builtin[name] = name !== "__hostFunctions";

// reset discards the unfinished state of an earlier run.
function reset() {
  runEnded = false;
  lastID = status[0] = 0;
  waiting.length = 0;
  printed = "";
  timers.clear();
  status[1] = -1;
  s0 = s1 = 0n;
  listed = {};
  for (const name of keysOf(runGlobals)) {
    if (isRunGlobal(name)) delete globalThis[name];
    delete runGlobals[name];
  }
}

function defineRunGlobal(name, descriptor) {
  runGlobals[name] = descriptor.get ?? descriptor.value;
  defineProperty(globalThis, name, descriptor);
}

function isRunGlobal(name) {
  const now = describeProperty(globalThis, name);
  return hasOwn(runGlobals, name) && now !== undefined && runGlobals[name] === (now.get ?? now.value);
}

// declare makes the top-level names of a session's program global variables.
function declare(names) {
  for (let i = 0; i < names.length; i++) {
    if (builtin[names[i]]) {
      throw new SyntaxProblem(names[i] + " is a builtin and cannot be declared in a session, because later runs would lose it; choose another name");
    }
  }
  for (let i = 0; i < names.length; i++) {
    if (isRunGlobal(names[i])) delete globalThis[names[i]];
    if (!hasOwn(globalThis, names[i])) defineProperty(globalThis, names[i], {value: undefined, writable: true, enumerable: true, configurable: true});
  }
}

// variables returns the names of the session's variables.
function variables() {
  return keysOf(globalThis).filter((name) => !isRunGlobal(name));
}

function start(program) {
  if (begun) reset();
  begun = true;
  session = !!program.session;
  maxCalls = program.calls ?? program.limits.calls;
  if (program.seed?.length && hostFunctions.seed) hostFunctions.seed(program.seed); // other engines apply the seed before the run starts
  if (program.tools) addTools(program.tools);
  if (program.names) for (let i = 0; i < program.names.length; i++) addGlobal(program.names[i]);
  if (program.inputs) for (const name of keysOf(program.inputs)) {
    defineProperty(globalThis, name, {value: program.inputs[name], writable: true, enumerable: true, configurable: true});
  }
  if (program.inputs && hasOwn(program.inputs, "__toolroom__")) prepareFunction();
  if (program.withheld) for (const name of keysOf(program.withheld)) {
    const reason = program.withheld[name];
    if (session && hasOwn(globalThis, name)) continue;
    defineRunGlobal(name, {configurable: true, get() { throw new ReferenceError(reason); }, set(value) { defineProperty(globalThis, name, {value, writable: true, enumerable: true}); }});
  }
  let main;
  try {
    main = evaluate(program.source);
    if (session) {
      declare(main[0]);
      main = main[1];
    }
  } catch (e) {
    return end(() => failure("syntax", e));
  }
  const promise = main();
  status[2] = 0;
  const value = settledValue?.(promise);
  if (status[2]) finish(value);
  else promise.then(finish, fault);
}

function finish(value) {
  if (runEnded) return;
  if (status[0] > 0) {
    const names = waiting.filter((answer) => answer);
    return end(() => ({
      ...failure("check", names[0].callSite), type: "ForgottenAwait",
      message: "the program ended while " + names[0].name + " was still under way: write await before the call" + (names.length > 1 ? " (and before " + (names.length - 1) + " more)" : ""),
    }));
  }
  flush();
  const text = session || hostFunctions.binary ? undefined : scalar(value);
  if (text) return writeFrame(kinds.done, '{"value":' + text + "}", 0);
  try {
    send(kinds.done, session ? {value, variables: variables()} : {value});
  } catch (e) {
    if (!(e instanceof ValueProblem)) return fault(e);
    end(() => ({kind: "value", type: "ValueError", message: "the returned value cannot leave the program: " + e.message}));
  }
}

// scalar returns the JSON of a value that needs no conversion, or undefined.
function scalar(value) {
  if (value === undefined || value === null) return "null";
  if (typeof value === "boolean" || typeof value === "number" && value - value === 0) return "" + value;
}

function fault(e) {
  end(() => failure("program", e));
}

function end(describe) {
  if (runEnded) return;
  flush();
  let body;
  try {
    body = describe();
  } catch (e) {
    body = {kind: "program", type: "Error", message: "the program threw an error that cannot be read"};
  }
  if (session) body.variables = variables();
  try {
    send(kinds.failed, body);
  } catch { // the body is too long, or the program has changed a member of a tool's error
    delete body.tool;
    body.trace = "";
    body.type = body.type.slice(0, 1000);
    body.message = body.message.slice(0, 100_000);
    send(kinds.failed, body);
  }
}

// failure describes an error. Positions refer to the text that ran; the server knows how
// it differs from the author's text.
function failure(kind, e) {
  if (!(e instanceof PlainError)) return {kind, type: "Thrown", message: "the program threw " + inspect(e, 0, [])};
  const body = {kind, type: Text(e.name), message: Text(e.message), file: "<program>", trace: ""};
  for (const line of Text(e.stack).split("\n")) {
    const found = /^\s*at (.*?) ?\(?<input>:(\d+):(\d+)\)?$/.exec(line);
    if (!found || found[1] === "<eval>") continue;
    if (!body.line) {
      body.line = +found[2];
      body.column = +found[3];
    }
    const place = "<program>:" + found[2] + ":" + found[3];
    body.trace += "    at " + (found[1] && found[1] !== "<anonymous>" ? found[1] + " (" + place + ")" : place) + "\n";
  }
  if (e.name === "InternalError" && e.message === "out of memory") Object.assign(body, {kind: "limit", limit: "memory"});
  if (e instanceof ToolError) body.tool = {code: e.code, phase: e.phase, tool: e.tool, message: e.message, retryable: e.retryable, hint: e.hint, details: e.details};
  if (e.hint) body.message += " (" + e.hint + ")";
  return body;
}

hostFunctions.fault = fault;
hostFunctions.deliver = (body) => {
  if (body) {
    receive(body);
  } else if (body === null) {
    end(() => ({kind: "program", type: "Deadlock", message: "the program waits for a promise that nothing will settle"}));
  } else {
    runTimers();
    setAlarm();
  }
};
