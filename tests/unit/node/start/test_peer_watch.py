"""A leader is sent a request, and suspected if its connection ends instead of a response."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.start.peer_watch import PeerWatch
from tests.unit.metadata_raft.metadata_world import MetadataWorld
from tests.unit.node.fakes import Metadata

OWN, OTHER = 0, 1


class Peers:
    """Connections to other nodes on which each request fails with this error, if any."""

    def __init__(self, code: ErrorCode) -> None:
        self._code = code
        self.requested: list[int] = []
        self.answer: asyncio.Event | None = None  # the event that a response waits for

    async def ask(self, node_id: int, *_: object) -> None:
        self.requested.append(node_id)
        if self.answer is not None:
            await self.answer.wait()
        if self._code:
            raise KafkaError(self._code, "")

    async def is_refused(self, node_id: int) -> bool:
        return False


class Tasks:
    """The background tasks of a running node."""

    are_open = True

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)


def watch_of(code: ErrorCode) -> tuple[PeerWatch, Peers, Metadata]:
    """Return a watch, its peers and its metadata."""
    world = MetadataWorld(brokers=2)
    peers, metadata = Peers(code), Metadata(world.image)
    watch = PeerWatch(
        node_id=OWN,
        metadata=cast(Any, metadata),
        peers=cast(Any, peers),
        has_peer=lambda node_id: True,
        tasks=cast(Any, Tasks()),
        is_voter=True,
        controller_changed=lambda: None,
    )
    return watch, peers, metadata


async def suspected_after(code: ErrorCode, node_id: int) -> tuple[bool, list[int]]:
    """Look at a node; return True if it is suspected then, and the nodes that were asked."""
    watch, peers, metadata = watch_of(code)
    await watch.probe(node_id)
    return metadata.suspects.wait_s(lambda brokers: node_id in brokers) > 0, peers.requested


@pytest.mark.parametrize(
    ("code", "is_suspected"),
    [
        (ErrorCode.NONE, False),
        (ErrorCode.NETWORK_EXCEPTION, True),
        (ErrorCode.REQUEST_TIMED_OUT, False),  # it may be busy
    ],
)
def test_a_node_whose_connection_ends_is_suspected(code: ErrorCode, is_suspected: bool) -> None:
    assert asyncio.run(suspected_after(code, OTHER)) == (is_suspected, [OTHER])


def test_a_node_does_not_ask_itself() -> None:
    assert asyncio.run(suspected_after(ErrorCode.NETWORK_EXCEPTION, OWN)) == (False, [])


def test_a_cancelled_caller_does_not_cancel_the_request() -> None:
    """A cancelled handshake would be lost, and the next caller would start it again."""

    async def run() -> tuple[bool, list[int]]:
        answer = asyncio.Event()
        watch, peers, _ = watch_of(ErrorCode.NONE)
        peers.answer = answer
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await watch.probe(OTHER)
        answer.set()
        await watch.probe(OTHER)
        return answer.is_set(), peers.requested

    assert asyncio.run(run()) == (True, [OTHER])
