# /// script
# [tool.toolroom]
# read_only = true
# cases = [{name = "two words", arguments = {pattern = "[a-z]+", text = "ab 12 cd"}, assert = "len(value) == 2 && value[1].text == 'cd' && value[1].start == 6"}]
# ///
import re
from dataclasses import dataclass, field


@dataclass
class Match:
    text: str
    start: int
    end: int
    groups: list[str | None] = field(default_factory=list)


def regex_helper(pattern: str, text: str, ignore_case: bool = False) -> list[Match]:
    """Find all matches of a regular expression.

    Args:
        pattern: A regular expression of Python.
        text: The text to search.
        ignore_case: Whether upper and lower case are the same.
    """
    found = re.finditer(pattern, text, re.IGNORECASE if ignore_case else 0)
    return [Match(m.group(), m.start(), m.end(), list(m.groups())) for m in found]
