"""The guest's side of the stream, the errors that are sent over it, and the program's output."""

import io
import os

from bridge_codec import MAX_BODY, decode, encode_frame

HELLO = 1
CALL, CHAIN, SEARCH, DESCRIBE, PUT, GET = 10, 11, 12, 13, 14, 15
PRINT, PROGRESS, LOG, DONE, FAILED = 20, 21, 22, 30, 31
START, RESULT, CANCEL = 32, 33, 34


class ToolError(Exception):
    """A tool call that failed: code, phase, tool, retryable, hint, details."""

    def __init__(self, error):
        self.code = error.get("code", "internal")
        self.phase = error.get("phase", "")
        self.tool = error.get("tool", "")
        self.retryable = bool(error.get("retryable"))
        self.hint = error.get("hint", "")
        self.details = error.get("details") or {}
        self.message = error.get("message", "")
        super().__init__(self.message)

    def __str__(self):
        text = f"{self.message} [{self.code}]"
        return f"{text} ({self.hint})" if self.hint else text

    def body(self):
        return {
            "code": self.code, "phase": self.phase, "tool": self.tool, "message": self.message,
            "retryable": self.retryable, "hint": self.hint, "details": self.details,
        }  # fmt: skip


def _error_class(name, *idioms):
    return type(name, (ToolError, *idioms), {"__module__": "__main__"})


ToolDenied = _error_class("ToolDenied", PermissionError)
ToolArgumentError = _error_class("ToolArgumentError", ValueError)
ToolNotFound = _error_class("ToolNotFound", LookupError)
ToolTimeout = _error_class("ToolTimeout", TimeoutError)
ERROR_CLASSES = {
    "denied": ToolDenied, "approval_declined": ToolDenied, "approval_expired": ToolDenied, "approval_required": ToolDenied,
    "unauthenticated": ToolDenied, "invalid_arguments": ToolArgumentError, "invalid_id": ToolArgumentError,
    "tool_not_found": ToolNotFound, "not_found": ToolNotFound, "ambiguous_tool": ToolNotFound, "timeout": ToolTimeout,
}  # fmt: skip


def tool_error(error):
    return ERROR_CLASSES.get(error.get("code"), ToolError)(error)


def shown(text):
    """Returns text for people, with U+FFFD instead of half surrogate pairs."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class Bridge:
    """The guest's side of the stream, for one thread."""

    def __init__(self, fd):
        self.fd = fd
        self.token = b""
        self.next_id = 0
        self.waiting = {}  # id → asyncio future
        self.answers = {}  # id → body, of requests that block
        self.pending = bytearray()

    def _write(self, data):
        return os.write(self.fd, data)

    def _read(self, size):
        return os.read(self.fd, size)

    def send(self, kind, body, id=0):
        data = memoryview(encode_frame(kind, id, self.token, body))
        while data:
            data = data[self._write(data) :]

    def read_frame(self):
        head = self._take(4)
        frame = decode(self._take(int.from_bytes(head, "big")))
        return frame[0], frame[1], frame[2], frame[3]

    def _take(self, n):
        while len(self.pending) < n:
            data = self._read(max(65536, n - len(self.pending)))
            if not data:
                raise SystemExit(1)  # an interpreter that is not needed ends silently
            self.pending += data
        taken = bytes(self.pending[:n])
        del self.pending[:n]
        return taken

    def _ask(self, kind, body):
        self.next_id += 1
        self.send(kind, body, self.next_id)
        return self.next_id

    def ask(self, kind, body):
        """Sends a request and blocks until the answer has come."""
        id = self._ask(kind, body)
        while id not in self.answers:
            self._deal(*self.read_frame())
        return unwrap(self.answers.pop(id))

    def ask_async(self, kind, body, future):
        """Sends a request; the answer completes the future."""
        if not self.waiting:
            future.get_loop().add_reader(self.fd, self._readable)
        self.waiting[self._ask(kind, body)] = future

    def _readable(self):
        self._deal(*self.read_frame())
        while self._whole():
            self._deal(*self.read_frame())
        if not self.waiting:
            import asyncio

            asyncio.get_running_loop().remove_reader(self.fd)

    def _whole(self):
        return len(self.pending) >= 4 and len(self.pending) >= 4 + int.from_bytes(self.pending[:4], "big")

    def _deal(self, kind, id, _token, body):
        if kind == CANCEL:
            raise KeyboardInterrupt(body.get("reason", "cancelled"))
        if kind != RESULT:
            return
        future = self.waiting.pop(id, None)
        if future is None:
            self.answers[id] = body
        elif not future.done():
            if "error" in body:
                future.set_exception(tool_error(body["error"]))
            else:
                future.set_result(body.get("value"))


def unwrap(body):
    if "error" in body:
        raise tool_error(body["error"])
    return body.get("value")


class Output(io.TextIOBase):
    """sys.stdout and sys.stderr: sends text to the server, by line or by 8 KiB."""

    def __init__(self, bridge, stream):
        self.bridge, self.stream, self.held = bridge, stream, ""

    encoding = "utf-8"

    def writable(self):
        return True

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.held += text
        if len(self.held) > 8192 or "\n" in text:
            self.flush()
        return len(text)

    def flush(self):
        text, self.held = self.held, ""
        for start in range(0, len(text), 1 << 20):
            part = text[start : start + (1 << 20)]
            self.bridge.send(PRINT, {"stream": self.stream, "text": shown(part)})
