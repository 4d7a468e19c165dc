# /// script
# [tool.toolroom]
# read_only = true
# cases = [
#   {name = "a sum", arguments = {operation = "add", a = 2, b = 3}, expect = 5},
#   {name = "a division by zero", arguments = {operation = "divide", a = 1, b = 0}, error = "execution_failed"},
# ]
# ///
import math
import operator
from typing import Literal

OPERATIONS = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "power": math.pow,
    "log": math.log,
}


def math_calc(operation: Literal["add", "subtract", "multiply", "divide", "power", "log"], a: float, b: float) -> float:
    """Calculate with two numbers.

    :param operation: What to calculate.
    :param a: The first number.
    :param b: The second number; for log the base.
    """
    return OPERATIONS[operation](a, b)
