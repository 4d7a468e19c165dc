#!/usr/bin/env python3
"""What the first day needs of others: an API, a page of releases, and an MCP client that cannot ask its user.

helper.py api            serves both on a free port, which it prints
helper.py http URL       an MCP client over HTTP; helper.py stdio COMMAND ARGS… starts its server
The client reads a line for each request from stdin, "list" or "call TOOL JSON", and prints each answer.
"""
import http.server, json, subprocess, sys, urllib.request

ISSUES = []

class API(http.server.BaseHTTPRequestHandler):
    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/releases/latest":
            return self.answer(200, {"tag_name": "v999.0.0", "html_url": "https://example.com/v999.0.0"})
        self.answer(200, ISSUES)

    def do_POST(self):
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ISSUES.append(sent)
        # As many APIs do, it leaves out what its document promises.
        self.answer(201, {"id": len(ISSUES), "number": len(ISSUES), "title": sent["title"]})

    def log_message(self, *args):
        pass

def serve_api():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), API)
    print(server.server_address[1], flush=True)
    server.serve_forever()

class Client:
    def __init__(self, url=None, command=None):
        self.url, self.session, self.next = url, None, 0
        if command:
            self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "first-day", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, method, params):
        self.next += 1
        return self.send({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})

    def send(self, message):
        if self.url:
            return self.post(message)
        self.child.stdin.write(json.dumps(message) + "\n")
        self.child.stdin.flush()
        while "id" in message:
            line = self.child.stdout.readline()
            if not line:
                sys.exit("the server has ended")
            answer = json.loads(line)
            if answer.get("id") == message["id"]:
                return answer

    def post(self, message):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        request = urllib.request.Request(self.url, json.dumps(message).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            self.session = response.headers.get("Mcp-Session-Id", self.session)
            for line in response:
                text = line.decode().removeprefix("data:").strip()
                if text.startswith("{"):
                    answer = json.loads(text)
                    if answer.get("id") == message.get("id"):
                        return answer

    def play(self):
        for line in sys.stdin:
            word, _, rest = line.strip().partition(" ")
            if word == "list":
                for tool in self.ask("tools/list", {})["result"]["tools"]:
                    print(tool["name"])
            else:
                tool, _, arguments = rest.partition(" ")
                print(json.dumps(self.ask("tools/call", {"name": tool, "arguments": json.loads(arguments)})))
        if not self.url:
            self.child.stdin.close()
            self.child.wait(20)

if sys.argv[1] == "api":
    serve_api()
elif sys.argv[1] == "http":
    Client(url=sys.argv[2]).play()
else:
    Client(command=sys.argv[2:]).play()
