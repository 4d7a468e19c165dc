# /// script
# [tool.toolroom]
# read_only = true
# cases = [
#   {name = "21", arguments = {x = 21}, expect = 42},
#   {name = "a fraction", arguments = {x = 1.5}, expect = 3},
# ]
# ///


def double(x: float) -> float:
    """Double a number.

    Args:
        x: The number.

    Returns:
        Twice the number.
    """
    return x * 2
