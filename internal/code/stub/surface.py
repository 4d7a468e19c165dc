# What programs of Toolroom's code mode can call. Made by: toolroom stubs -l python
from typing import Any, Generator, Generic, Literal, NotRequired, TypedDict, TypeVar


class ToolError(Exception):
    """The error of a tool that failed."""

    code: str
    phase: str
    tool: str
    retryable: bool
    hint: str
    details: Any


class Command(dict[str, Any]):
    """What a command-line program gave back: stdout, stderr, exit_code, ok."""

    def text(self) -> str: ...
    def lines(self) -> list[str]: ...
    def json(self) -> Any: ...


def call_tool(id: Any, values: dict[str, Any] = ..., **more: Any) -> «Any»: ...
def run(id: Any, values: dict[str, Any] = ..., **more: Any) -> «Any»: ...
def run_chain(steps: list[Any]) -> «Any»: ...
def search_tools(query: str, limit: int = ...) -> «list[dict[str, Any]]»: ...
def describe_tool(id: Any, level: Literal["summary", "schema", "full"] = ...) -> «dict[str, Any]»: ...
def progress(done: float, total: float = ..., message: str = ...) -> None: ...
def log(message: str, level: Literal["debug", "info", "warning", "error"] = ..., **fields: Any) -> None: ...


class Handle:
    """An artifact that is kept outside."""

    handle: str
    media_type: str
    size: int


class _Artifacts:
    def put(self, name: str, data: Any, media_type: str = ...) -> «Handle»: ...
    def get(self, handle: Any) -> «bytes»: ...


class _Results:
    def get(self, handle: Any) -> «Any»: ...


artifacts: _Artifacts
results: _Results
