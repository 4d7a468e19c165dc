# /// script
# [tool.toolroom]
# read_only = true
# cases = [{name = "a text", arguments = {message = "hello"}, expect = {message = "hello", length = 5}}]
# ///
from typing import TypedDict


class Echo(TypedDict):
    message: str
    length: int


def echo(message: str) -> Echo:
    """Return a message and its length.

    Args:
        message: The text to return.
    """
    return {"message": message, "length": len(message)}
