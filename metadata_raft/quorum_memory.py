"""A quorum of one in memory, for tests, which commit at once or by hand."""

from collections import deque

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.delta import replay_batch
from ottla.metadata_raft.image import Endpoint, MetadataImage
from ottla.metadata_raft.quorum import QuorumListener, QuorumStatus, ReplicaStatus
from ottla.metadata_raft.record_codec import MetadataBatch, decode_batch, encode_batch
from ottla.metadata_raft.voters import Voter

MEMORY_LEADER_ID = 0


class MemoryQuorum:
    """A quorum with encoded batches in `log`; with `by_hand`, they wait for `commit` or `lose_leadership`."""

    def __init__(self, *, node_id: int = MEMORY_LEADER_ID, by_hand: bool = False) -> None:
        self.log: list[bytes] = []
        self.is_leader = True
        self.leader_id = node_id
        self.epoch = 1
        self._by_hand = by_hand
        self._waiting: deque[MetadataBatch] = deque()
        self._listener: QuorumListener | None = None
        self._image = MetadataImage()
        self.handed_over = 0  # the number of calls of `hand_over`

    def attach(self, listener: QuorumListener) -> None:
        self._listener, self._image = listener, listener.committed_image
        if self.is_leader:
            listener.handle_leadership(self.epoch)

    def append(self, batch: MetadataBatch) -> None:
        if not self.is_leader or batch.epoch != self.epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node does not lead the metadata quorum.")
        # Encoded and decoded, so that a test sees what a restart would read.
        encoded = bytes(encode_batch(batch))
        self.log.append(encoded)
        self._waiting.append(decode_batch(encoded)[0])
        if not self._by_hand:
            self.commit()

    def commit(self, count: int | None = None) -> None:
        """Commit the oldest `count` batches, all by default."""
        assert self._listener is not None
        for _ in range(len(self._waiting) if count is None else count):
            batch = self._waiting.popleft()
            self._image, changes = replay_batch(self._image, batch)
            self._listener.handle_commit(batch, self._image, changes)

    def lose_leadership(self) -> None:
        """Let another member lead; batches that were not committed are lost."""
        assert self._listener is not None
        del self.log[len(self.log) - len(self._waiting) :]
        self._waiting.clear()
        self.is_leader = False
        self.leader_id = -1
        self._listener.handle_resignation("Another node leads the metadata quorum.")

    def win_election(self) -> None:
        """Lead again, in a new epoch."""
        assert self._listener is not None
        self.is_leader, self.epoch = True, self.epoch + 1
        self._listener.handle_leadership(self.epoch)

    @property
    def hears_all(self) -> bool:
        return self.leader_id >= 0

    async def catch_up(self, voter: Voter, timeout_seconds: float) -> None:
        return

    def hand_over(self) -> None:
        self.handed_over += 1

    def status(self) -> QuorumStatus:
        end_offset = self._image.version + 1
        voter = ReplicaStatus(self.leader_id, ZERO_UUID, end_offset, -1, -1)
        return QuorumStatus(self.leader_id, self.epoch, end_offset, (voter,), ())

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        return None

    async def run(self) -> None:
        return

    def close(self) -> None:
        return
