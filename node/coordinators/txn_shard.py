"""The parts of a shard that only the transaction coordinator has.

Decisions are sent to the leaders as markers once they are committed. A command that needs a new producer id
goes on when the controller has given one.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias, get_args

from ottla.groupcoord.request_token import Token
from ottla.groupcoord.transactions.transaction_commands import (
    AbortTimedOut,
    Command,
    MarkersWritten,
    ReadOnlyCommand,
)
from ottla.groupcoord.transactions.transaction_coordinator import TransactionCoordinator
from ottla.groupcoord.transactions.transaction_effects import (
    Append,
    CancelTimer,
    CloseWithoutResponse,
    Effect,
    MarkerJob,
    NeedProducerId,
    Refuse,
    Reply,
    SendMarkers,
    StartTimer,
)
from ottla.groupcoord.transactions.transaction_records import TransactionRecord, encode_key, encode_value
from ottla.groupcoord.transactions.transaction_results import Result
from ottla.groupcoord.transactions.transaction_scan import TransactionScan, load_shard
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.logstore.words.errors import KafkaError
from ottla.node.coordinators.coordinator_log import Row
from ottla.node.coordinators.coordinator_shard import CoordinatorShard, Loaded, ShardParts
from ottla.node.coordinators.shard_loader import Pause, ShardLoader
from ottla.node.replica.partition import Partition

_READ_ONLY = frozenset(get_args(ReadOnlyCommand))

# `CloseWithoutResponse` is an answer, too: the connection is closed without a response.
TxnAnswer: TypeAlias = Result | CloseWithoutResponse
TransactionCoordinatorShard: TypeAlias = CoordinatorShard[TransactionCoordinator, Command, TxnAnswer]


def txn_parts(
    *,
    new_shard: Callable[[], TransactionShard],
    level: Callable[[], int],
    need_id: Callable[[Callable[[int | KafkaError], None]], None],
    send_markers: Callable[[MarkerJob], None],
    drop_markers: Callable[[], None],
    max_batch_bytes: int,
) -> ShardParts[TransactionCoordinator, Command, TxnAnswer]:
    """Return the parts of a shard of transactions.

    `new_shard` makes an empty shard, also in a thread; `level` returns the current level of
    transaction.version; `need_id` calls back with a producer id, or with the error if there is none.
    """
    own = _TxnParts(new_shard, level, need_id, send_markers, drop_markers)
    return ShardParts(
        new_core=lambda: TransactionCoordinator(new_shard()),
        load=own.load,
        rows=_rows,
        max_batch_bytes=max_batch_bytes,
        moved="the coordinator of this transactional id has moved",
        read_only=_READ_ONLY,
        may_linger=True,  # the record of a completed transaction is written with the start of the next one
        keep_as=_keep_as,
        merged=_merged,
        carry_out=own.carry_out,
        started=own.started,
        stopped=own.stopped,
    )


class _TxnParts:
    """The parts of one shard that have state of their own."""

    def __init__(
        self,
        new_shard: Callable[[], TransactionShard],
        level: Callable[[], int],
        need_id: Callable[[Callable[[int | KafkaError], None]], None],
        send_markers: Callable[[MarkerJob], None],
        drop_markers: Callable[[], None],
    ) -> None:
        self._new_shard = new_shard
        self._level = level
        self._need_id = need_id
        self._send_markers = send_markers
        self._drop_markers = drop_markers
        self._needing: dict[Token, None] = {}  # requests that wait for a producer id

    async def load(
        self, loader: ShardLoader, partition: Partition, is_closed: Callable[[], bool]
    ) -> Loaded[TransactionCoordinator, Command]:
        """Load the shard from the partition's log."""

        def make(scan: TransactionScan, pause: Pause) -> Loaded[TransactionCoordinator, Command]:
            scanned = scan.finish()
            shard = load_shard(scanned, self._new_shard(), pause=pause)
            return Loaded(TransactionCoordinator(shard), scanned.unreadable)

        return await loader.load(partition, new_scan=TransactionScan, make=make, is_closed=is_closed)

    def started(self, _: TransactionCoordinatorShard, core: TransactionCoordinator) -> None:
        """Read the level again, which may have changed while the shard was loaded."""
        core.shard.level = self._level()

    def stopped(self, shard: TransactionCoordinatorShard, moved: KafkaError) -> None:
        """Answer the requests that wait for an id. The next coordinator sends all markers again."""
        self._drop_markers()
        needing, self._needing = self._needing, {}
        for token in needing:
            shard.answer(token, moved)

    def carry_out(self, shard: TransactionCoordinatorShard, effect: Effect) -> None:
        """Carry out an effect that only the transaction coordinator has."""
        match effect:
            case CloseWithoutResponse(token):
                shard.answer(token, effect)
            case SendMarkers(job):
                shard.log.when_committed(partial(self._decided, shard, job))
            case NeedProducerId():
                if effect.token is not None:
                    self._needing[effect.token] = None
                self._need_id(partial(self._go_on_with_id, shard, effect))
            case Append() | Reply() | Refuse() | StartTimer() | CancelTimer():
                raise AssertionError(f"{effect} must be handled by the runtime")

    def _decided(self, shard: TransactionCoordinatorShard, job: MarkerJob, error: KafkaError | None) -> None:
        """Send the markers of a committed decision; with an error, this shard never sends them."""
        if error is None and not shard.is_closed:
            self._send_markers(job)

    def _go_on_with_id(
        self, shard: TransactionCoordinatorShard, needed: NeedProducerId, outcome: int | KafkaError
    ) -> None:
        if shard.is_closed:
            return
        if needed.token is not None:
            del self._needing[needed.token]
        if not isinstance(outcome, KafkaError):
            shard.handle(replace(needed.command, fresh_id=outcome))
        elif needed.token is not None:
            shard.answer(needed.token, outcome)


def _keep_as(command: Command) -> Hashable:
    match command:
        case MarkersWritten():
            return command.transactional_id, command.producer_id, command.marker_epoch
        case AbortTimedOut():
            return None  # the sweep that found the timed-out transaction finds it again
        case _:
            raise AssertionError(f"{command} comes from a client or a timer, or is read-only")


def _merged(earlier: Command, later: Command) -> Command:
    assert isinstance(earlier, MarkersWritten) and isinstance(later, MarkersWritten)
    return replace(later, partitions=earlier.partitions | later.partitions)


def _rows(core: TransactionCoordinator, records: Sequence[TransactionRecord]) -> list[Row]:
    return [_row(record, core.shard.level) for record in records]


def _row(record: TransactionRecord, level: int) -> Row:
    value = record.value
    return encode_key(record.transactional_id), None if value is None else encode_value(value, level)
