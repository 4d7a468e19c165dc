// Frames: the program's requests and messages, and the server's answers.

const kinds = {call: 10, chain: 11, search: 12, describe: 13, put: 14, get: 15, print: 20, progress: 21, log: 22, done: 30, failed: 31, start: 32, result: 33, cancel: 34};

class ToolError extends PlainError {
  constructor(e) {
    super(e.message);
    this.code = e.code;
    this.phase = e.phase;
    this.tool = e.tool;
    this.retryable = !!e.retryable;
    this.hint = e.hint || "";
    if (e.details !== undefined) this.details = e.details;
  }
}
defineProperty(ToolError.prototype, "name", {value: "ToolError", writable: true, configurable: true});

let lastID = 0, runEnded = false, maxCalls = 100;
const waiting = []; // by request id

// send sends a frame. A frame with an answer is a request, whose response answer receives.
// The server adds the frame's head, and may not accept JSON. Reading a value can run the
// program's code (a getter, toJSON), which may send frames itself. So send reads the whole
// value before its frame gets a number, and each read has its own buffer.
let writing = false;
function send(kind, body, answer) {
  if (runEnded) return;
  if (!hostFunctions.binary && simple(body)) {
    const content = writeJSON(body);
    if (content.length > maxValue) tooLarge();
    if (!content.includes("\\ud")) return sendEncoded(kind, content, answer); // else a name contains half a surrogate pair
  }
  const outer = writing && {buffer, view, at, level, shown, trail, parents};
  if (outer) {
    buffer = new Bytes(4096);
    view = new DataView(buffer.buffer);
    trail = [];
    parents = [];
  }
  const before = writing;
  writing = true;
  at = 0;
  shown = kind === kinds.print || kind === kinds.progress || kind === kinds.log || kind === kinds.failed;
  try {
    writeValue(body, 0);
    sendEncoded(kind, buffer, answer);
  } finally {
    writing = before;
    if (outer) ({buffer, view, at, level, shown, trail, parents} = outer);
  }
}

function sendEncoded(kind, content, answer) {
  if (printed && (kind === kinds.done || kind === kinds.failed)) flush(); // what was printed while the value was read
  if (runEnded) return;
  let id = 0;
  if (answer) {
    checkBudget();
    id = lastID + 1;
  }
  writeFrame(kind, content, id);
  if (!answer) return;
  status[0]++;
  waiting[++lastID] = answer;
}

function writeFrame(kind, content, id) {
  if (kind === kinds.done || kind === kinds.failed) runEnded = true;
  status[2] = at;
  status[3] = kind;
  status[4] = id;
  sendFrame(content);
}

function checkBudget() {
  if (lastID < maxCalls) return;
  throw new ToolError({
    code: "budget_exceeded", phase: "execute", message: "this program has made all the " + maxCalls + " tool calls that it may make",
    hint: "make fewer calls, for example ask for larger pages, or ask for a higher limit of calls",
  });
}

// request sends a request. answer receives the response.
function request(kind, body, answer) {
  if (printed) flush();
  checkBudget();
  try {
    send(kind, body, answer);
  } catch (e) {
    if (!(e instanceof ValueProblem)) throw e;
    throw new ToolError({code: "invalid_arguments", phase: "validate_input", tool: answer.name, message: "the arguments of " + answer.name + " cannot be sent: " + e.message});
  }
}

function requestAsync(kind, name, body) {
  // The Error records the stack now, with the functions that are active at this point.
  const answer = {name, callSite: new PlainError(""), resolve: undefined, reject: undefined, body: undefined};
  const promise = new PlainPromise((resolve, reject) => {
    answer.resolve = resolve;
    answer.reject = reject;
  });
  try {
    request(kind, body, answer);
  } catch (e) {
    answer.reject(e);
  }
  return promise;
}

// requestSync sends a request and blocks until the answer has come.
function requestSync(kind, name, body) {
  const answer = {name, callSite: new PlainError("")};
  request(kind, body, answer);
  while (!answer.body) receive(awaitFrame());
  if (answer.body.error) throw toolError(answer);
  return answer.body.value;
}

function toolError(answer) {
  const e = new ToolError(answer.body.error);
  // Show the position of the author's call, not of the code that received the answer.
  const stack = answer.callSite.stack.split("\n").filter((line) => !line.includes("toolroom:prelude")).join("\n");
  defineProperty(e, "stack", {value: stack, writable: true, configurable: true});
  return e;
}

// receive handles a frame from the server. Its body is JSON if JSON can represent it,
// which the engine reads much faster than the prelude could; otherwise it is CBOR.
function receive(body) {
  const kind = status[2], id = status[3];
  if (typeof body === "string") {
    body = parseJSON(body);
  } else {
    data = body;
    pos = 0;
    body = readValue();
    data = undefined;
  }
  if (kind === kinds.start) return start(body);
  if (kind !== kinds.result) return;
  const answer = waiting[id];
  if (!answer) return;
  waiting[id] = undefined;
  status[0]--;
  answer.body = body;
  if (!answer.resolve) return;
  if (body.error) answer.reject(toolError(answer));
  else answer.resolve(body.value);
}

const scheduleMicrotask = queueMicrotask;
let printed = "", printing = "stdout", flushed = 0;

function print(stream, text) {
  if (stream !== printing) flush();
  if (!printed) scheduleMicrotask(flush); // at the latest when this turn ends
  printing = stream;
  printed += text;
  if (printed.length > 8192 || PlainDate.now() - flushed > 100) flush();
}

function flush() {
  if (!printed) return;
  const text = printed;
  printed = "";
  flushed = PlainDate.now();
  send(kinds.print, {stream: printing, text});
}
