// One run, from the start frame to the last frame.

const evaluate = eval;

function start(program) {
  const limits = program.limits;
  status[2] = limits.wall;
  status[3] = limits.memory / 1048576;
  setLimits();
  maxCalls = limits.calls;
  offer(program.tools);
  for (const name of keysOf(program.inputs)) {
    defineProperty(globalThis, name, {value: program.inputs[name], writable: true, enumerable: true, configurable: true});
  }
  for (const name of keysOf(program.withheld)) {
    const reason = program.withheld[name];
    defineProperty(globalThis, name, {configurable: true, get() { throw new ReferenceError(reason); }, set(value) { defineProperty(globalThis, name, {value, writable: true}); }});
  }
  let main;
  try {
    main = evaluate(program.source);
  } catch (e) {
    return end(() => failure("syntax", e));
  }
  main().then(finish, fault);
}

function finish(value) {
  if (status[0] > 0) {
    const names = waiting.filter((answer) => answer);
    return end(() => ({
      ...failure("check", names[0].place), type: "ForgottenAwait",
      message: "the program ended while " + names[0].name + " was still under way: write await before the call" + (names.length > 1 ? " (and before " + (names.length - 1) + " more)" : ""),
    }));
  }
  flush();
  try {
    tell(kinds.done, {value});
  } catch (e) {
    if (!(e instanceof ValueProblem)) return fault(e);
    end(() => ({kind: "value", type: "ValueError", message: "the value given back cannot leave the program: " + e.message}));
  }
}

function fault(e) {
  end(() => failure("program", e));
}

function end(describe) {
  if (over) return;
  flush();
  let body;
  try {
    body = describe();
  } catch (e) {
    body = {kind: "program", type: "Error", message: "an error that cannot be read was thrown"};
  }
  tell(kinds.failed, body);
}

// failure describes an error. Positions are those of the text that ran; the
// host knows what was done to the author's text before.
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

doors.deliver = (body) => {
  if (body) {
    take(body);
  } else if (body === null) {
    end(() => ({kind: "program", type: "Deadlock", message: "the program waits for a promise that nothing will settle"}));
  } else {
    runTimers();
    setAlarm();
  }
};
