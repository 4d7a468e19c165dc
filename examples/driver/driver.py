#!/usr/bin/env python3
"""A sandbox driver as a program: guests in namespaces of their own, by bwrap(1).

It follows docs/runner.md and needs nothing but Python and bubblewrap.
"""
import http.server, json, os, shutil, signal, socket, socketserver, struct, subprocess, sys, threading

NAME = "bwrap"
PATH = "/usr/local/bin:/usr/bin:/bin"
FOLDERS = ["/usr", "/lib", "/lib64", "/bin"]
sandboxes = {}  # by id
lock = threading.Lock()


class Sandbox:
    def __init__(self, order):
        command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv", "--setenv", "PATH", PATH,
                   "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/work", "--tmpfs", "/tmp", "--chdir", "/work"]
        if order.get("profile") == "dev" and not order.get("egress"):
            command.append("--share-net")
        for folder in FOLDERS:
            command += ["--ro-bind-try", folder, folder]
        command += ["--ro-bind", order["guest"], "/run/guest"]
        if order.get("profile") != "dev":
            command += ["--uid", "65534", "--gid", "65534", "--remount-ro", "/"]
        for entry in order.get("env") or []:
            command += ["--setenv", *entry.split("=", 1)]
        self.stderr = b""
        self.process = subprocess.Popen(command + ["/run/guest"] + (order.get("args") or []), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self):
        while chunk := self.process.stderr.read(4096):
            self.stderr = (self.stderr + chunk)[-8192:]

    def end(self):
        self.listener.join(1)  # the last words
        code = self.process.returncode
        ended = {"code": code if code >= 0 else -1, "stderr": self.stderr.decode(errors="replace")}
        if code < 0:
            ended["signal"] = signal.Signals(-code).name
        return ended

    def kill(self):
        self.process.kill()  # bwrap dies, and its namespaces with it
        self.process.wait()


def probe():
    if not shutil.which("bwrap"):
        return {"state": "unsupported", "reason": "bwrap is not installed", "fix": "apt-get install bubblewrap"}
    trial = subprocess.run(["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"], capture_output=True, text=True)
    if trial.returncode != 0:
        return {"state": "unsupported", "reason": trial.stderr.strip()}
    version = subprocess.run(["bwrap", "--version"], capture_output=True, text=True).stdout.strip()
    no = "bwrap sets no limits"
    return {"state": "available", "version": version, "isolation": "ns", "holds": {"wall": "SIGKILL of bwrap", "network": "network namespace"},
            "lacks": {"cpu": no, "memory": no, "pids": no, "disk": no}, "languages": ["python", "shell"]}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        pid, uid, _ = struct.unpack("3i", self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        self.stranger = pid != os.getppid() or uid != os.getuid()

    def answer(self, body=None, status=200):
        text = json.dumps(body).encode() if body is not None else b""
        self.send_response(status if body is not None else 204)
        self.send_header("Content-Type", "application/json")
        if body is not None:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def fail(self, code, message, status=422):
        self.answer({"error": {"code": code, "message": message}}, status)

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = self.path.partition("?")[0].strip("/").split("/")
        if self.stranger or parts[:2] != [NAME, "v1"]:
            return self.fail("not_found", "there is nothing here", 404)
        kind = (self.command, *parts[2:3], *parts[4:])
        if kind == ("PUT", "settings"):
            return self.answer()
        if kind == ("GET", "probe"):
            return self.answer({"driver": NAME, "probe": probe()})
        if kind == ("POST", "clean"):
            return self.answer({"leftovers": []})  # the guests die with this program
        if kind == ("POST", "sandboxes"):
            return self.start(json.loads(body))
        with lock:
            sandbox = sandboxes.get(parts[3]) if len(parts) > 3 else None
        if sandbox is None:
            return self.fail("not_found", "there is no such sandbox", 404)
        if kind == ("GET", "sandboxes", "stream"):
            return self.stream(sandbox)
        if kind == ("GET", "sandboxes", "exit"):
            try:
                sandbox.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                return self.answer()
            return self.answer(sandbox.end())
        if kind == ("GET", "sandboxes", "usage"):
            return self.answer({})
        if kind == ("DELETE", "sandboxes"):
            sandbox.kill()
            with lock:
                sandboxes.pop(parts[3], None)
            return self.answer(sandbox.end())
        self.fail("not_found", "there is no such request", 404)

    do_GET = do_PUT = do_POST = do_DELETE = serve

    def start(self, order):
        try:
            sandbox = Sandbox(order)
        except OSError as e:
            return self.fail("sandbox_unavailable", f"start bwrap: {e}")
        with lock:
            sandboxes[order["id"]] = sandbox
        held = {} if order.get("profile") == "dev" else {"network": "network namespace"}
        self.answer({"isolation": "ns", "held": held})

    def stream(self, sandbox):
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: toolroom-bridge/1\r\n\r\n")
        out, back = sandbox.process.stdout.fileno(), self.connection

        def down():
            try:
                while chunk := os.read(out, 65536):
                    back.sendall(chunk)
            except OSError:
                pass
            try:
                back.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

        sender = threading.Thread(target=down, daemon=True)
        sender.start()
        try:
            while chunk := self.rfile.read1(65536):
                rest = memoryview(chunk)
                while rest:
                    rest = rest[os.write(sandbox.process.stdin.fileno(), rest):]
        except OSError:
            pass
        sandbox.kill()  # the caller has gone
        sender.join()


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass  # a caller that has gone


server = Server(os.environ.pop("TOOLROOM_RUNNER_SOCKET"), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps({"protocol": 1, "drivers": [NAME]}), flush=True)
sys.stdin.read()  # until toolroom ends, or no longer needs this
for one in list(sandboxes.values()):
    one.kill()
