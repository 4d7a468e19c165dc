# /// script
# [tool.toolroom]
# cases = [
#   {name = "in range", arguments = {low = 1, high = 6, count = 3}, assert = "len(value) == 3 && all(value, # >= 1 && # <= 6)"},
#   {name = "a seed repeats", arguments = {low = 1, high = 1000, seed = 7}, assert = "len(value) == 1"},
# ]
# ///
import random
from typing import Annotated


def random_tools(low: int, high: int, count: Annotated[int, "How many numbers", {"minimum": 1, "maximum": 1000}] = 1, seed: int | None = None) -> list[int]:
    """Draw random whole numbers.

    Args:
        low: The least number.
        high: The greatest number.
        seed: Draws the same numbers each time, if it is given.
    """
    source = random.Random(seed)
    return [source.randint(low, high) for _ in range(count)]
