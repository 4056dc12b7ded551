"""A share-partition that this node leads, with its partition and the fetches that wait for its records."""

from collections.abc import Callable

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.replica.delayed_fetch import DelayedFetch
from ottla.node.replica.partition import Partition
from ottla.node.share.read_delays import ReadDelays
from ottla.node.share.repeated_line import RepeatedLine
from ottla.node.share.share_partition import SharePartition
from ottla.node.share.share_sessions import TopicIdPartition

# The measured memory of a share-partition with nothing in flight, and of each range of records in flight.
LED_BYTES = 4_000
RANGE_BYTES = 200
DELAYED_BYTES = 20  # of each record that is not due yet


class LedPartition:
    """One share-partition, from the first fetch of a member until the node no longer leads it."""

    __slots__ = (
        "checked_ms",
        "claimed_by",
        "connection",
        "core",
        "counted_bytes",
        "counted_delayed",
        "delays",
        "failure",
        "is_checking",
        "is_gone",
        "is_sending_letters",
        "leader_epoch",
        "letter_failed_s",
        "letter_failure",
        "letter_producer",
        "letters_lost",
        "lock_timeouts",
        "lost_letters",
        "missing_letter_topic",
        "oldest_offset",
        "oldest_since_ms",
        "partition",
        "used_ms",
        "waiting",
    )

    def __init__(
        self, core: SharePartition, partition: Partition, connection: ConnectionInfo, now_ms: int
    ) -> None:
        self.core = core
        self.partition = partition
        self.connection = connection  # of the first member
        self.used_ms = now_ms  # the time of the last fetch or acknowledgement of a member
        self.checked_ms = now_ms  # the last time at which its state was that of its coordinator
        self.is_checking = False
        self.leader_epoch = partition.leader_epoch  # the newest in which this node led without a break
        self.waiting: dict[DelayedFetch, None] = {}  # in the order in which they came
        self.claimed_by: object | None = None  # the fetch that may acquire next, before all others
        self.is_gone = False
        self.lock_timeouts = 0  # records whose lock ended
        self.counted_bytes = 0  # the `used_bytes` that the manager has counted
        self.counted_delayed = 0  # the records not due yet that the manager has counted
        self.oldest_offset: int | None = None  # the oldest record in flight, and the time since it is that
        self.oldest_since_ms = 0
        self.delays: ReadDelays | None = None  # due times read by a thread for the next attempt of a fetch
        self.failure: KafkaError | None = None  # why its state could not be read, or its records not acquired
        self.is_sending_letters = False
        self.lost_letters = RepeatedLine()  # about records without a dead letter; the metric counts all
        self.missing_letter_topic = RepeatedLine()  # about the topic for which letters were given up
        self.letter_failure = ErrorCode.NONE  # the error of the last attempt to write its dead letters
        self.letter_failed_s = 0.0  # the time of that attempt, by the loop's clock
        self.letters_lost = False  # letters were given up since the last were written
        self.letter_producer: tuple[int, int] | None = None  # producer id and last epoch of its dead letters

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """The partition as members name it."""
        return TopicIdPartition(self.core.key.topic_id, self.core.key.partition)

    def is_left(self, before_ms: int) -> bool:
        """Return True if its state is read, no member has asked since then, and none waits or holds anything.

        The sessions that keep it may be of members that crashed.
        """
        core = self.core
        is_unused = self.used_ms < before_ms and not self.waiting
        return is_unused and core.is_active and core.next_expiry() is None

    @property
    def used_bytes(self) -> int:
        """An estimate of the bytes that it uses."""
        core = self.core
        return LED_BYTES + core.in_flight_range_count * RANGE_BYTES + core.delayed_count * DELAYED_BYTES

    def note_oldest(self, now_ms: int) -> None:
        """Update the oldest record in flight, after a change that may have moved the start offset.

        A record that is not due yet does not count: its time starts when it is due.
        """
        core = self.core
        is_any = core.in_flight_range_count and not core.begins_with_delayed
        oldest = core.start_offset if is_any else None
        if oldest != self.oldest_offset:
            self.oldest_offset, self.oldest_since_ms = oldest, now_ms

    def stalled_ms(self, now_ms: int) -> int:
        """Return how long the oldest record in flight has been the same; 0 while none is due."""
        self.note_oldest(now_ms)
        return 0 if self.oldest_offset is None else max(now_ms - self.oldest_since_ms, 0)

    def note_letters(self, error: ErrorCode, now_s: float) -> None:
        """Note the result of an attempt to write dead letters; a success clears earlier losses."""
        self.letter_failure = error
        self.letter_failed_s = now_s
        if error is ErrorCode.NONE:
            self.letters_lost = False

    @property
    def is_awaiting_letters(self) -> bool:
        """Return True if its dead letters are being written, or will be after the coordinator's answer."""
        return self.core.is_active and (self.core.has_letters or self.is_sending_letters)

    def may_acquire(self, fetch: object) -> bool:
        """Return True if this fetch could acquire records that the log has."""
        is_free = self.claimed_by is None or self.claimed_by is fetch
        return is_free and not self.is_gone and self.core.is_active and self.core.may_acquire()

    def still_leads(self) -> bool:
        """Return True if this node still leads, and no other can have led since the state was read.

        This notes the present leader epoch for the next call.
        """
        partition = self.partition
        if not partition.is_leader or partition.leader_epoch > self.leader_epoch + 1:
            return False
        self.leader_epoch = partition.leader_epoch
        return True

    def check_waiting(self) -> None:
        """Wake waiting fetches until one claims the share-partition, since there may be more to acquire."""
        for delayed in tuple(self.waiting):
            if self.claimed_by is not None:
                return
            delayed.check(self.partition)

    def wake_all(self) -> None:
        """Wake all waiting fetches, since there will be no more records."""
        for delayed in tuple(self.waiting):
            delayed.finish()

    def measure(
        self, fetch: object, readable: Callable[["LedPartition"], int | None]
    ) -> Callable[[], int | None]:
        """Return a function that returns the bytes that the fetch could get here, or None if it must try at
        once.
        """

        def measure() -> int | None:
            if self.is_gone:
                return None
            return readable(self) if self.may_acquire(fetch) else 0

        return measure
