"""A share-partition that this node leads, with the partition under it and those who wait for its records."""

from collections.abc import Callable

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.replica.delayed_fetch import DelayedFetch
from ottla.node.replica.partition import Partition
from ottla.node.share.read_delays import ReadDelays
from ottla.node.share.repeated_line import RepeatedLine
from ottla.node.share.share_partition import SharePartition
from ottla.node.share.share_sessions import TopicIdPartition

# Of one that has nothing in flight, and of each range of records in flight, as measured.
LED_BYTES = 4_000
RANGE_BYTES = 200
DELAYED_BYTES = 20  # of each record that is not due yet


class LedPartition:
    """One share-partition from the first fetch of a member until the node leads it no more."""

    __slots__ = (
        "asked_ms",
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
        "waiting",
    )

    def __init__(
        self, core: SharePartition, partition: Partition, connection: ConnectionInfo, now_ms: int
    ) -> None:
        self.core = core
        self.partition = partition
        self.connection = connection  # of the member that was the first
        self.asked_ms = now_ms  # when a member has last asked for its records, or told of them
        self.checked_ms = now_ms  # when its state was last known to be that of its coordinator
        self.is_checking = False
        self.leader_epoch = partition.leader_epoch  # the newest in which this node led without a break
        self.waiting: dict[DelayedFetch, None] = {}  # in the order in which they came
        self.claimed_by: object | None = None  # the fetch that is about to acquire, before others look
        self.is_gone = False
        self.lock_timeouts = 0  # records whose lock ended
        self.counted_bytes = 0  # of `used_bytes`, by the manager
        self.counted_delayed = 0  # records that are not due yet, by the manager, too
        self.oldest_offset: int | None = None  # of the records in flight, and since when it is the same
        self.oldest_since_ms = 0
        self.delays: ReadDelays | None = None  # that a thread has read for the next attempt of a fetch
        self.failure: KafkaError | None = None  # why its state could not be read
        self.is_sending_letters = False
        self.lost_letters = RepeatedLine()  # of records without a dead letter; the metric counts all
        self.missing_letter_topic = RepeatedLine()  # for which letters were given up
        self.letter_failure = ErrorCode.NONE  # why the last attempt at its dead letters was in vain
        self.letter_failed_s = 0.0  # and when, by the loop's clock
        self.letters_lost = False  # whether letters were given up since some were written
        self.letter_producer: tuple[int, int] | None = None  # the id of its dead letters, and the last epoch

    @property
    def place(self) -> TopicIdPartition:
        """The partition as members name it."""
        return TopicIdPartition(self.core.key.topic_id, self.core.key.partition)

    def is_left(self, before_ms: int) -> bool:
        """Return whether no member has asked since then, waits or holds anything.

        The sessions that keep it may be of members that died without a word.
        """
        core = self.core
        is_unasked = self.asked_ms < before_ms and not self.waiting
        return is_unasked and core.is_active and core.next_expiry() is None

    @property
    def used_bytes(self) -> int:
        """The bytes that it takes, about."""
        core = self.core
        return LED_BYTES + core.in_flight_range_count * RANGE_BYTES + core.delayed_count * DELAYED_BYTES

    def note_oldest(self, now_ms: int) -> None:
        """Take note of the oldest record in flight, after anything that may have moved the start offset.

        One that is not due yet holds up nothing: its time counts from then on.
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
        """Take note how an attempt at dead letters has ended; with one that succeeds others are forgotten."""
        self.letter_failure = error
        self.letter_failed_s = now_s
        if error is ErrorCode.NONE:
            self.letters_lost = False

    @property
    def is_awaiting_letters(self) -> bool:
        """Return whether its dead letters are being written, or will be when the coordinator has answered."""
        return self.core.is_active and (self.core.has_letters or self.is_sending_letters)

    def may_acquire(self, fetch: object) -> bool:
        """Return whether this fetch could acquire something, if the log has it."""
        is_free = self.claimed_by is None or self.claimed_by is fetch
        return is_free and not self.is_gone and self.core.is_active and self.core.may_acquire()

    def still_leads(self) -> bool:
        """Return whether this node leads on, and no other can have led since the state was read."""
        partition = self.partition
        if not partition.is_leader or partition.leader_epoch > self.leader_epoch + 1:
            return False
        self.leader_epoch = partition.leader_epoch
        return True

    def check_waiting(self) -> None:
        """There may be more to acquire: wake who waits, until one is to have it."""
        for delayed in tuple(self.waiting):
            if self.claimed_by is not None:
                return
            delayed.check(self.partition)

    def wake_all(self) -> None:
        """Wake all who wait, as there will be nothing more."""
        for delayed in tuple(self.waiting):
            delayed.finish()

    def measure(
        self, fetch: object, readable: Callable[["LedPartition"], int | None]
    ) -> Callable[[], int | None]:
        """Return what tells how many bytes the fetch could have of this; None: it must look at once."""

        def measure() -> int | None:
            if self.is_gone:
                return None
            return readable(self) if self.may_acquire(fetch) else 0

        return measure
