# /// script
# [tool.toolroom]
# read_only = true
# cases = [{name = "one day", arguments = {start = "2026-01-01T00:00:00Z", days = 1}, expect = {moment = "2026-01-02T00:00:00Z", weekday = "Friday", week = 1}}]
# ///
import datetime
from dataclasses import dataclass


@dataclass
class Moment:
    moment: datetime.datetime
    weekday: str
    week: int


def time_tools(start: datetime.datetime, days: int = 0, hours: int = 0) -> Moment:
    """Add days and hours to a time.

    Args:
        start: The time to start from, with its offset.
        days: Days to add; negative to subtract.
        hours: Hours to add.
    """
    moment = start + datetime.timedelta(days=days, hours=hours)
    return Moment(moment, moment.strftime("%A"), moment.isocalendar().week)
