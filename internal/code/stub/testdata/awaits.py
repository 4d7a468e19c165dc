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


def call_tool(id: Any, values: dict[str, Any] = ..., **more: Any) -> Answer[Any]: ...
def run(id: Any, values: dict[str, Any] = ..., **more: Any) -> Answer[Any]: ...
def run_chain(steps: list[Any]) -> Answer[Any]: ...
def search_tools(query: str, limit: int = ...) -> Answer[list[dict[str, Any]]]: ...
def describe_tool(id: Any, level: Literal["summary", "schema", "full"] = ...) -> Answer[dict[str, Any]]: ...
def progress(done: float, total: float = ..., message: str = ...) -> None: ...
def log(message: str, level: Literal["debug", "info", "warning", "error"] = ..., **fields: Any) -> None: ...


class Handle:
    """An artifact that is kept outside."""

    handle: str
    media_type: str
    size: int


class _Artifacts:
    def put(self, name: str, data: Any, media_type: str = ...) -> Answer[Handle]: ...
    def get(self, handle: Any) -> Answer[bytes]: ...


class _Results:
    def get(self, handle: Any) -> Answer[Any]: ...


artifacts: _Artifacts
results: _Results


_T = TypeVar("_T", covariant=True)


class Answer(Generic[_T]):
    """The answer of a call: await it."""

    def __await__(self) -> Generator[Any, Any, _T]: ...

_github_create_issue_result = TypedDict("_github_create_issue_result", {
    "number": int,
    "a b": NotRequired[str | None],
    "pair": NotRequired[list[str | float]],
})

_github_create_issue_who_boss_boss = TypedDict("_github_create_issue_who_boss_boss", {
    "login": NotRequired[Any],
    "boss": NotRequired[Any],
})

_github_create_issue_who_boss = TypedDict("_github_create_issue_who_boss", {
    "login": NotRequired[str],
    "boss": NotRequired[_github_create_issue_who_boss_boss],
})

_github_create_issue_who = TypedDict("_github_create_issue_who", {
    "login": NotRequired[str],
    "boss": NotRequired[_github_create_issue_who_boss],
})

_my_files_read_all_values = TypedDict("_my_files_read_all_values", {
    "from": NotRequired[int],
    "kind": NotRequired[Literal["x"]],
})

class _git:
    def status(self, *words: Any, **options: Any) -> Answer[Command]:
        """Show the state."""


class _github:
    def create_issue(self, title: str, labels: list[str] = ..., state: Literal["open", "closed", None, True, 1] = ..., ratio: Literal["all"] | float = ..., who: _github_create_issue_who = ...) -> Answer[_github_create_issue_result]:
        """Create an issue.

        It */ ends \"\"\" nothing \\.
        """

    def delete(self, *words: Any, **values: Any) -> Answer[Any]:
        ...

    # import is a keyword: tools["github"]["import"](...)
    pass

class _my_files:
    def read_all(self, values: _my_files_read_all_values | Any = ..., *words: Any, **more: Any) -> Answer[dict[str, bool | dict[str, Any]]]:
        """Read.
        Tool my-files:read.all.
        """


class _odd:
    def schema(self, *words: Any, **values: Any) -> Answer[Any]:
        ...


class _Tools:
    def __getitem__(self, namespace: str) -> Any: ...
    git: _git
    github: _github
    my_files: _my_files
    odd: _odd

tools: _Tools


class _Mcp:
    def __getitem__(self, namespace: str) -> Any: ...
    github: _github

mcp: _Mcp


class _Cli:
    def __call__(self, program: str) -> Any: ...
    def __getitem__(self, namespace: str) -> Any: ...
    git: _git

cli: _Cli
git: _git
github: _github
