// Makes every connection of Node that is not to this machine go through the guest's proxy:
// net, tls, http, https, fetch, and packages built on them. Node itself reads the variables
// of proxies from version 24 on, and only for http, https and fetch.
"use strict";

const net = require("node:net");
const tls = require("node:tls");
const {Duplex} = require("node:stream");

const proxy = new URL(process.env.HTTP_PROXY);
const {connect} = net.Socket.prototype;

function direct(o) {
  const host = o.host || "localhost";
  return o.path || o.socket || host === "localhost" || host === "::1" || net.isIPv4(host) && host.startsWith("127.");
}

// tunnel makes a socket that connects to the proxy ask for a connection to another machine.
// Until it stands, the socket emits no event of it and reads nothing for its owner.
function tunnel(socket, host, port) {
  const address = (net.isIPv6(host) ? "[" + host + "]" : host) + ":" + port;
  const {emit, push} = socket;
  let answer = Buffer.alloc(0);
  socket.emit = function held(event, ...rest) {
    if (event === "ready") return true;
    if (event !== "connect") return emit.call(this, event, ...rest);
    // Not by write, which waits for what the owner has written: that is sent after this.
    this._write(Buffer.from("CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n\r\n"), "buffer", () => {});
    this._read(0); // nor by read, which waits for the event if the owner reads already
    return true;
  };
  socket.push = function take(chunk, ...rest) {
    const over = chunk === null;
    if (!over) answer = Buffer.concat([answer, chunk]);
    const head = answer.indexOf("\r\n\r\n");
    const status = /^HTTP\/1\.[01] (\d+)/.exec(answer.toString("latin1"))?.[1];
    if (!over && (head < 0 || status !== "200")) return true; // a refusal ends with the connection
    socket.emit = emit;
    socket.push = push;
    if (status !== "200") {
      const reason = answer.subarray(head + 4).toString().trim().replace(/^toolroom: /, "") || "the proxy ended the connection";
      this.destroy(Object.assign(new Error("cannot connect to " + address + ": " + reason), {code: "ECONNREFUSED", host, port}));
      return push.call(this, null, ...rest);
    }
    this.emit("connect");
    this.emit("ready");
    const more = answer.subarray(head + 4);
    return more.length ? this.push(more, ...rest) : true;
  };
}

net.Socket.prototype.connect = function through(...args) {
  const [options, listener] = net._normalizeArgs(Array.isArray(args[0]) ? args[0] : args);
  if (direct(options)) return connect.apply(this, args);
  if (listener) this.once("connect", listener);
  tunnel(this, options.host, options.port);
  return connect.call(this, {host: proxy.hostname, port: +proxy.port, noDelay: options.noDelay, keepAlive: options.keepAlive});
};

// Stream is a socket as a stream, over which TLS begins when it is connected.
class Stream extends Duplex {
  constructor(socket) {
    super({allowHalfOpen: false});
    this.socket = socket;
    socket.on("data", (chunk) => this.push(chunk) || socket.pause());
    socket.on("end", () => this.push(null));
    socket.on("error", (e) => this.destroy(e));
    socket.on("close", () => this.destroy());
  }
  _read() { this.socket.resume(); }
  _write(chunk, encoding, done) { this.socket.write(chunk, encoding, done); }
  _final(done) { this.socket.end(done); }
  _destroy(e, done) { this.socket.destroy(); done(e); }
  setNoDelay() { return this; }
  setKeepAlive() { return this; }
  setTimeout() { return this; }
  ref() { this.socket.ref(); return this; }
  unref() { this.socket.unref(); return this; }
}

const connectTLS = tls.connect;
tls.connect = function through(...args) {
  const [first, listener] = net._normalizeArgs(args);
  const more = args.find((one, i) => i > 0 && one !== null && typeof one === "object");
  const options = {...first, ...more};
  if (direct(options)) return connectTLS.apply(this, args);
  const socket = new net.Socket();
  socket.connect({host: options.host, port: options.port});
  const servername = options.servername ?? (net.isIP(options.host) ? "" : options.host);
  return connectTLS.call(this, {...options, socket: new Stream(socket), servername}, ...(listener ? [listener] : []));
};
