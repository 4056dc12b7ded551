"""One connection of the quorum: writes after the other end is gone."""

import asyncio
from typing import cast

from ottla.metadata_raft.raft_wire import LinkWire


class FailingTransport:
    """A transport whose socket fails at the first write: it closes at once, without a callback this turn."""

    def __init__(self) -> None:
        self.writes = 0

    def is_closing(self) -> bool:
        return self.writes > 0

    def get_extra_info(self, name: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, content: bytes) -> None:
        self.writes += 1


def test_nothing_is_written_to_a_transport_whose_socket_failed() -> None:
    async def run() -> tuple[int, bool]:
        wire, transport = LinkWire(), FailingTransport()
        wire.connection_made(cast(asyncio.Transport, transport))
        assert wire.has_room
        for _ in range(100):
            wire.send(b"frame")
        return transport.writes, wire.has_room

    assert asyncio.run(run()) == (1, False)
