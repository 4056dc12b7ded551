"""Fetches the metadata from a voter, for a node that is not one, and applies them with the code of a voter.

An observer takes the place of a voter's quorum: it passes the same commits to the same listener, and never
leads. It can fetch from any voter, since committed metadata are the same everywhere, and changes to another
voter when this one fails or lags. It keeps nothing on disk: a start begins with a snapshot.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.delta import replay_steps
from ottla.metadata_raft.image import Endpoint, MetadataImage
from ottla.metadata_raft.image_changes import changes_between
from ottla.metadata_raft.quorum import QuorumListener, QuorumStatus
from ottla.metadata_raft.record_codec import MetadataBatch, decode_batch
from ottla.metadata_raft.snapshot import decode_snapshot
from ottla.metadata_raft.voters import Voter
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.fetch_metadata import FetchMetadataRequest, FetchMetadataResponse
from ottla.node.wire.messages.fetch_metadata_snapshot import (
    FetchMetadataSnapshotRequest,
    FetchMetadataSnapshotResponse,
)
from ottla.node.work.turns import take_turns

FETCH_BYTES: Final = 1024 * 1024
FETCH_WAIT_MS: Final = 1_000
# A voter that is silent for longer is left for another one. A broker accepts records only as long as the
# controller answers its heartbeats and it receives the metadata, so this is well below
# `broker.session.timeout.ms` (9 s).
FETCH_TIMEOUT_S: Final = 3.0
LARGE_BYTES: Final = 64 * 1024  # of batches: some 600 records, whose decoding takes 5 ms
MAX_SNAPSHOT_BYTES: Final = 1 << 30
FIRST_BACKOFF_S: Final = 0.05
MAX_BACKOFF_S: Final = 1.0
PURPOSE: Final = "metadata"

# Returns an open connection to a voter by its id, for a purpose.
Connect = Callable[[int, str], Awaitable[PeerClient]]

log = logging.getLogger(__name__)


class MetadataObserver:
    """A member of the quorum without a vote. Used on the node's event loop only."""

    is_leader: Final = False
    hears_all: Final = False  # the voter that it fetches from may be behind

    def __init__(
        self,
        image: MetadataImage,
        *,
        voters: Mapping[int, Endpoint],
        connect: Connect,
        chance: random.Random,
        node_id: int = -1,
    ) -> None:
        """`node_id` is this node. A voter's list may contain it, but it is never fetched from."""
        self._node_id = node_id
        self.leader_id = -1
        self.epoch = 0
        self._image = image
        self._voters = dict(voters)
        self._connect = connect
        self._chance = chance
        self._listener: QuorumListener | None = None
        self._is_closed = asyncio.Event()
        self._failures = 0

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        """Return the address at which a voter serves brokers, as a voter named it; None if it is unknown."""
        return self._voters.get(node_id)

    @property
    def image(self) -> MetadataImage:
        """The metadata fetched so far."""
        return self._image

    def go_on_from(self, image: MetadataImage, voters: Mapping[int, Endpoint]) -> None:
        """Set the image and the voters from which the next call of `run` continues.

        Without `voters`, those known before remain.
        """
        self._image = image
        self.leader_id = -1  # the leader of the last fetch may have changed
        if voters:
            self._voters = dict(voters)

    def status(self) -> QuorumStatus:
        """Return the leader, its epoch and the end of the image; only the leader knows more."""
        return QuorumStatus(self.leader_id, self.epoch, self._image.version + 1, (), ())

    def attach(self, listener: QuorumListener) -> None:
        self._listener = listener

    def append(self, batch: MetadataBatch) -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node is not a voter of the metadata quorum.")

    async def catch_up(self, voter: Voter, timeout_seconds: float) -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node is not a voter of the metadata quorum.")

    def hand_over(self) -> None:
        return

    def close(self) -> None:
        self._is_closed.set()

    async def run(self) -> None:
        """Fetch and apply metadata until `close`; a record that this version does not know ends the node."""
        async with asyncio.TaskGroup() as tasks:
            fetching = tasks.create_task(self._fetch_for_ever())
            await self._is_closed.wait()
            fetching.cancel()

    async def _fetch_for_ever(self) -> None:
        voter_id = -1
        untried: list[int] = []
        while True:
            while not self._voters:
                await asyncio.sleep(MAX_BACKOFF_S)  # there is no address to fetch from
            if voter_id not in self._voters:
                untried = untried or self._in_any_order()
                voter_id = untried.pop()
                continue
            try:
                await self._fetch_once(voter_id)
                self._failures, untried = 0, []
            except KafkaError as error:
                if error.code is ErrorCode.UNSUPPORTED_VERSION:
                    raise  # to skip an unknown record would be to lose a change
                self._note_failure(voter_id, error)
                # If one voter fails, the next is tried at once; after all have failed, a backoff is first.
                if not untried:
                    if self._failures > 1:
                        await self._back_off()
                    untried = self._in_any_order(last=voter_id)
                voter_id = -1

    def _in_any_order(self, *, last: int = -1) -> list[int]:
        """Return the voters in random order, to be tried from the end of the list; `last` is tried last."""
        others = sorted(self._voters.keys() - {last})
        tried_last = [last] if last in self._voters else []
        return tried_last + self._chance.sample(others, len(others))

    def _note_failure(self, voter_id: int, error: KafkaError) -> None:
        self._failures += 1
        if self._failures in (1, 10) or self._failures % 100 == 0:
            log.warning("Node %d sends no metadata: %s", voter_id, error)

    async def _back_off(self) -> None:
        rounds = self._failures // max(1, len(self._voters))
        limit_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(rounds, 10))
        await asyncio.sleep(limit_s * (0.5 + self._chance.random() / 2))

    async def _fetch_once(self, voter_id: int) -> None:
        client = await self._connect(voter_id, PURPOSE)
        response = await client.request(
            FetchMetadataRequest(
                fetch_offset=self._image.version + 1,
                last_epoch=self._image.epoch,
                max_bytes=FETCH_BYTES,
                max_wait_ms=FETCH_WAIT_MS,
            ),
            FetchMetadataResponse,
            timeout_s=FETCH_TIMEOUT_S,
        )
        addresses = {
            one.node_id: Endpoint(one.host, one.port, one.security_protocol)
            for one in response.voters
            if one.node_id != self._node_id
        }
        if response.error_code:
            # It lost its vote or its leader. Its voters may have newer addresses, or some may be missing.
            self._voters |= addresses
            raise KafkaError(ErrorCode(response.error_code), f"Node {voter_id} rejected a fetch of metadata.")
        if response.epoch >= self.epoch:
            known_id, self.leader_id, self.epoch = self.leader_id, response.leader_id, response.epoch
            if self.leader_id != known_id:
                assert self._listener is not None
                self._listener.handle_leader_change()
        if addresses:
            self._voters = addresses
        if response.snapshot_offset >= 0:
            await self._take_snapshot(client, response)
        await self._apply(response.batches)

    # ---- applying ------------------------------------------------------------------------------------------

    async def _apply(self, content: bytes) -> None:
        """Apply batches one after another; a large one takes several turns, but is passed on as a whole."""
        assert self._listener is not None
        position = 0
        while position < len(content):
            if len(content) - position > LARGE_BYTES:
                batch, header = await asyncio.to_thread(decode_batch, content, position)
            else:
                batch, header = decode_batch(content, position)
            before = self._image
            if batch.base_offset != before.version + 1 or batch.epoch < before.epoch:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"The batch at {batch.base_offset} of epoch {batch.epoch} does not follow"
                    f" {before.version} of epoch {before.epoch}.",
                )
            self._image, changes = await take_turns(replay_steps(before, batch))
            self._listener.handle_commit(batch, self._image, changes)
            position += header.size_bytes

    async def _take_snapshot(self, client: PeerClient, named: FetchMetadataResponse) -> None:
        if not 0 <= named.snapshot_bytes <= MAX_SNAPSHOT_BYTES:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A snapshot of the metadata is too large.")
        content = bytearray()
        while len(content) < named.snapshot_bytes:
            piece = await client.request(
                FetchMetadataSnapshotRequest(
                    snapshot_offset=named.snapshot_offset,
                    snapshot_epoch=named.snapshot_epoch,
                    position=len(content),
                    max_bytes=FETCH_BYTES,
                ),
                FetchMetadataSnapshotResponse,
            )
            if piece.error_code:
                raise KafkaError(ErrorCode(piece.error_code), "The voter rejected a fetch of a snapshot.")
            if not piece.content or piece.snapshot_bytes != named.snapshot_bytes:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A snapshot changed while it was fetched.")
            content += piece.content
        version, epoch = named.snapshot_offset - 1, named.snapshot_epoch
        if version <= self._image.version:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"A snapshot up to offset {version} is older than the metadata of this node.",
            )
        empty = MetadataImage(cluster_id=self._image.cluster_id)
        image = await asyncio.to_thread(
            decode_snapshot, bytes(content), empty=empty, version=version, epoch=epoch
        )
        assert self._listener is not None
        changes = changes_between(self._image, image)
        self._image = image
        self._listener.handle_snapshot(image, changes)
