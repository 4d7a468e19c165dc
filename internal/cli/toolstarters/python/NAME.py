# /// script
# [tool.toolroom]
# cases = [{name = "one greeting", arguments = {name = "Ada"}, expect = "Hello, Ada!"}]
# ///


def main(name: str, times: int = 1) -> str:
    """Greet someone.

    Args:
        name: Who to greet.
        times: How often.
    """
    return " ".join([f"Hello, {name}!"] * times)
