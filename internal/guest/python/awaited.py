"""The answers of tools in programs that await them. Loaded only for such programs: importing asyncio takes longer than the rest of Python."""

import asyncio

from tools import forgotten, shape


class Awaited(asyncio.Future):
    """The answer of a tool in a program that awaits: the call has already been sent."""

    awaited = False

    def __init__(self, loop, line, what, convert):
        super().__init__(loop=loop)
        self.line, self.what, self.convert = line, what, convert

    def set_result(self, value):
        super().set_result(self.convert(value) if self.convert else value)

    def set_exception(self, error):
        super().set_exception(error)
        self._log_traceback = False  # Program.run reports answers that are not awaited

    # Awaiting it, directly or with other awaitables, calls one of these.

    def __await__(self):
        self.awaited = True
        return super().__await__()

    def add_done_callback(self, *arguments, **context):
        self.awaited = True
        super().add_done_callback(*arguments, **context)

    def _later(self, method):
        self.awaited = True

        async def later():
            return getattr(await self, method)()

        return later()

    def text(self):
        return self._later("text")

    def lines(self):
        return self._later("lines")

    def json(self):
        return self._later("json")

    def __repr__(self):
        return f"<the answer of {shape(self.what)}, not awaited>"

    # Operations that only a value supports.

    def _no_value(self, *_):
        raise TypeError(forgotten(shape(self.what)))

    __getitem__ = __contains__ = __len__ = __add__ = __radd__ = __lt__ = __gt__ = _no_value

    def __getattr__(self, name):
        raise AttributeError(forgotten(shape(self.what)))
