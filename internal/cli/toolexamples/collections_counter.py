# /// script
# [tool.toolroom]
# read_only = true
# cases = [{name = "words", arguments = {items = ["a", "b", "a"], most = 1}, expect = [{item = "a", count = 2}]}]
# ///
import collections
from typing import TypedDict


class Count(TypedDict):
    item: str
    count: int


def collections_counter(items: list[str], most: int | None = None) -> list[Count]:
    """Count how often each text occurs, the most frequent first.

    Args:
        items: The texts to count.
        most: How many to return; all if it is missing.
    """
    return [{"item": item, "count": count} for item, count in collections.Counter(items).most_common(most)]
