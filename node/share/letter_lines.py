"""The connections over which dead letters go to a leader, and whose turn it is on each.

A connection has a few requests under way, and answers come in order: one that hangs holds up those behind it.
So letters to different topics go over different connections, as long as there are some, and a letter is asked
for when it is its turn: the time that it may take begins then, and no other's time ends while it waits.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ottla.node.net.peer_client import MAX_IN_FLIGHT

# To one leader for one purpose, where so many topics have letters at once. Others share them.
MAX_LINES: Final = 8


class _Line:
    """One connection, by the purpose that it is known by."""

    __slots__ = ("purpose", "turns", "users")

    def __init__(self, purpose: str) -> None:
        self.purpose = purpose
        self.turns = asyncio.Semaphore(MAX_IN_FLIGHT)
        self.users: dict[bytes, int] = {}  # who send or wait, by topic

    @property
    def load(self) -> int:
        return sum(self.users.values())


class LetterLines:
    """Lives on the event loop."""

    def __init__(self) -> None:
        self._lines: dict[tuple[int, str], list[_Line]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    @asynccontextmanager
    async def take(self, leader: int, purpose: str, topic_id: bytes) -> AsyncIterator[str]:
        """Wait for a turn, and give the purpose of the connection to use."""
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
    """Return the line of a topic, else one that nobody uses, else the one that the fewest use."""
    for line in lines:
        if topic_id in line.users:
            return line
    least = min(lines, key=lambda one: one.load, default=None)
    if least is None or (least.users and len(lines) < MAX_LINES):
        least = _Line(purpose if not lines else f"{purpose} {len(lines) + 1}")
        lines.append(least)
    return least
