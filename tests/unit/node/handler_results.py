"""The results of handlers: a response, or steps that lead to it."""

import inspect
from typing import Any

from ottla.node.net.answers import BuiltInThread, Delayed


async def settled(result: Any) -> Any:
    """Return the response that a handler's result leads to; None if the request gets none."""
    while True:
        if isinstance(result, Delayed):
            result = result.answer(await result.future)
        elif isinstance(result, BuiltInThread):
            result = result.make()
        elif inspect.isawaitable(result):
            result = await result
        else:
            return result
