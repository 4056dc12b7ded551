"""The order in which dead letters are sent, so that an unreachable partition does not hold up any other.

Each partition gets one batch at a time. After a failure of the partition itself, the next batch is sent after
a pause, longer each time, and counts as an attempt of all callers that wait for that partition: they share
its failure, and need no memory for a batch of their own. These attempts have slots apart from other batches,
and a topic has a limited number of each kind, however many partitions it has.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError, kept
from ottla.node.share.share_words import ArchivedRecords

# Batches in flight, of a megabyte each by a topic's default. One may hang for the timeout of a request.
MAX_ON_THEIR_WAY: Final = 128
# Batches in flight to partitions at which the last attempt failed.
MAX_DOUBTFUL: Final = 64
# Batches of each kind in flight to the partitions of one topic.
MAX_OF_TOPIC: Final = 16
# As in Kafka: pauses of 1, 2, 4 and 8 seconds.
FIRST_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 8.0
JITTER: Final = 0.2
# Partitions that are remembered without a waiting caller, because the last attempt at them failed.
MAX_REMEMBERED: Final = 1_000
# Errors that another attempt at the same batch would get again, because of its contents or of the settings of
# its topic. They say nothing about other batches.
REFUSED: Final = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.POLICY_VIOLATION,
    }
)
# Errors of the partition or its leader, which concern all batches sent there. Any other error concerns only
# its batch.
DESTINATION_ERRORS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


class Sent(NamedTuple):
    """The result of an attempt: the number of letters that were sent, the records that get none, the error.

    Without an error the letters are in the log.
    """

    letters: int = 0
    without: Sequence[ArchivedRecords] = ()
    error: KafkaError | None = None


class _PartitionState:
    """The state of sending to one partition."""

    __slots__ = ("error", "failed_attempts", "failures", "retry_at_s", "turn", "users")

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.users = 0  # callers that send or wait
        self.failures = 0  # in a row
        self.failed_attempts = 0  # since this object was made
        self.error: KafkaError | None = None  # of the last failure
        self.retry_at_s = 0.0  # by the loop's clock


class _Slots:
    """The slots of batches in flight, with a limit for each topic."""

    def __init__(self, most: int, most_of_topic: int) -> None:
        self._all = asyncio.Semaphore(most)
        self._most_of_topic = most_of_topic
        self._of_topic: dict[bytes, asyncio.Semaphore] = {}
        self._users: dict[bytes, int] = {}

    @asynccontextmanager
    async def take(self, topic_id: bytes) -> AsyncIterator[None]:
        """Wait for a free slot, in the order of the calls."""
        if topic_id not in self._of_topic:
            self._of_topic[topic_id] = asyncio.Semaphore(self._most_of_topic)
        self._users[topic_id] = self._users.get(topic_id, 0) + 1
        try:
            async with self._of_topic[topic_id], self._all:
                yield
        finally:
            self._users[topic_id] -= 1
            if not self._users[topic_id]:
                del self._users[topic_id], self._of_topic[topic_id]


class LetterOrder:
    """Lets callers send batches in the order described above. For the event loop only."""

    def __init__(self, *, sleep: Callable[[float], Awaitable[None]], chance: Callable[[], float]) -> None:
        """`chance` returns a number from 0 to 1."""
        self._sleep = sleep
        self._chance = chance
        self._partitions: dict[tuple[bytes, int], _PartitionState] = {}
        self._slots = _Slots(MAX_ON_THEIR_WAY, MAX_OF_TOPIC)
        self._doubtful = _Slots(MAX_DOUBTFUL, MAX_OF_TOPIC)

    def __len__(self) -> int:
        return len(self._partitions)

    async def attempt_in_turn(
        self, topic_id: bytes, partition: int, attempt: Callable[[], Awaitable[Sent]]
    ) -> Sent:
        """Make an attempt to send a batch to a partition when its turn comes.

        If another attempt fails with an error of this partition meanwhile, the attempt fails with it and is
        not made.
        """
        key = topic_id, partition
        state = self._partitions.setdefault(key, _PartitionState())
        state.users += 1
        failed_before = state.failed_attempts
        try:
            async with state.turn:
                if state.failed_attempts > failed_before:
                    return Sent(error=state.error)
                slots = self._slots
                if state.failures:
                    slots = self._doubtful
                    await self._sleep(max(state.retry_at_s - asyncio.get_running_loop().time(), 0.0))
                async with slots.take(topic_id):
                    sent = await attempt()
                self._note(state, sent)
                return sent
        finally:
            state.users -= 1
            self._forget(key, state)

    def _note(self, state: _PartitionState, sent: Sent) -> None:
        error = sent.error
        if error is None or error.code in REFUSED:
            if sent.letters:  # otherwise nothing was sent
                state.failures = 0
            return
        if error.code not in DESTINATION_ERRORS:
            return  # the caller makes a pause of its own
        pause_s = min(FIRST_PAUSE_S * 2 ** min(state.failures, 10), MAX_PAUSE_S)
        pause_s *= 1 + JITTER * (2 * self._chance() - 1)
        state.retry_at_s = asyncio.get_running_loop().time() + pause_s
        state.error = kept(error)  # its frames hold the batch
        state.failures += 1
        state.failed_attempts += 1

    def _forget(self, key: tuple[bytes, int], state: _PartitionState) -> None:
        """Remove a partition without callers, unless the last attempt at it failed."""
        if state.users or key not in self._partitions:
            return
        del self._partitions[key]
        if not state.failures:
            return
        self._partitions[key] = state  # last in the order
        if len(self._partitions) > MAX_REMEMBERED:
            oldest = next((name for name, one in self._partitions.items() if not one.users), key)
            del self._partitions[oldest]
