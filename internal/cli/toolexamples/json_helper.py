# /// script
# [tool.toolroom]
# read_only = true
# cases = [
#   {name = "a member", arguments = {text = '{"a": [1, {"b": 2}]}', path = "a.1.b"}, expect = 2},
#   {name = "no JSON", arguments = {text = "{"}, error = "execution_failed"},
# ]
# ///
import json
from typing import Any


def json_helper(text: str, path: str = "") -> Any:
    """Parse JSON and return a part of it.

    Parameters
    ----------
    text : str
        The JSON text.
    path : str
        Names and indexes to follow, separated by dots; empty returns everything.
    """
    value = json.loads(text)
    for part in filter(None, path.split(".")):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value
