"""The connections to a leader for dead letters, and the turns on each.

A connection has a few requests in flight, and responses come in order, so one that hangs holds up those
behind it. Therefore letters to different topics go over different connections, as long as there are enough.
A request is sent only in its turn: its timeout starts then, and not while it waits behind others.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ottla.node.net.peer_client import MAX_IN_FLIGHT

# Connections to one leader for one purpose; if more topics have letters at once, they share these.
MAX_LINES: Final = 8


class _Line:
    """One connection, named by its purpose."""

    __slots__ = ("purpose", "turns", "users")

    def __init__(self, purpose: str) -> None:
        self.purpose = purpose
        self.turns = asyncio.Semaphore(MAX_IN_FLIGHT)
        self.users: dict[bytes, int] = {}  # callers that send or wait, by topic

    @property
    def load(self) -> int:
        return sum(self.users.values())


class LetterLines:
    """The connections to all leaders. For the event loop only."""

    def __init__(self) -> None:
        self._lines: dict[tuple[int, str], list[_Line]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    @asynccontextmanager
    async def take(self, leader: int, purpose: str, topic_id: bytes) -> AsyncIterator[str]:
        """Wait for a turn, and yield the purpose of the connection to use."""
        lines = self._lines.setdefault((leader, purpose), [])
        line = _line_for(lines, purpose, topic_id)
        line.users[topic_id] = line.users.get(topic_id, 0) + 1
        try:
            async with line.turns:
                yield line.purpose
        finally:
            line.users[topic_id] -= 1
            if not line.users[topic_id]:
                del line.users[topic_id]
            if not any(one.users for one in lines) and self._lines.get((leader, purpose)) is lines:
                del self._lines[leader, purpose]


def _line_for(lines: list[_Line], purpose: str, topic_id: bytes) -> _Line:
    """Return the line of a topic, else an unused one, else a new one, else the least used."""
    for line in lines:
        if topic_id in line.users:
            return line
    least = min(lines, key=lambda one: one.load, default=None)
    if least is None or (least.users and len(lines) < MAX_LINES):
        least = _Line(purpose if not lines else f"{purpose} {len(lines) + 1}")
        lines.append(least)
    return least
