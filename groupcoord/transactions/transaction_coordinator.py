"""One shard of the transaction coordinator: the ids of one partition of `__transaction_state`.

    coordinator = TransactionCoordinator(shard)     # a shard loaded from the log, or an empty one
    effects = coordinator.start(now_ms)             # owed markers, timers
    effects = coordinator.handle(command, now_ms)   # for each command
    effects = coordinator.stop(error)               # answers all waiting requests; the last call

`handle` decides and replays its own `Append`s at once: the state runs ahead of the log by the records that
the caller is about to append. If an append fails, the caller drops the coordinator and loads another one from
the log.
"""

from ottla.groupcoord.transactions.add_partitions import add_partitions, verify_partitions
from ottla.groupcoord.transactions.coordinator_abort import TIMEOUTS_KEY, abort_timed_out, sweep_timeouts
from ottla.groupcoord.transactions.describe_transactions import describe_transactions, list_transactions
from ottla.groupcoord.transactions.end_transaction import end_transaction
from ottla.groupcoord.transactions.id_expiry import EXPIRE_KEY, sweep_ids
from ottla.groupcoord.transactions.init_producer import init_producer
from ottla.groupcoord.transactions.marker_progress import markers_written, resume_markers
from ottla.groupcoord.transactions.transaction_commands import (
    AbortTimedOut,
    AddPartitions,
    Command,
    DescribeTransactions,
    EndTransaction,
    EndWaiting,
    InitProducer,
    LevelChanged,
    ListTransactions,
    MarkersWritten,
    SweepIds,
    SweepTimeouts,
    VerifyPartitions,
)
from ottla.groupcoord.transactions.transaction_effects import Append, Effect, Refuse, StartTimer
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.groupcoord.transactions.transaction_state import PREPARED
from ottla.groupcoord.transactions.waiting_requests import end_waiting, take_waiting
from ottla.logstore.words.errors import ErrorCode, KafkaError


class TransactionCoordinator:
    """The coordinator of one shard: commands in, effects out. Not thread-safe: one owner calls it."""

    def __init__(self, shard: TransactionShard) -> None:
        self.shard = shard

    def start(self, now_ms: int) -> list[Effect]:
        """Start the timers, and carry on decided transactions. Called before the first command."""
        config = self.shard.config
        effects: list[Effect] = [
            StartTimer(
                TIMEOUTS_KEY,
                config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
                SweepTimeouts(),
            ),
            StartTimer(
                EXPIRE_KEY, config.transaction_remove_expired_transaction_cleanup_interval_ms, SweepIds()
            ),
        ]
        owed = resume_markers(self.shard, now_ms)
        self._replay(owed)
        return effects + owed

    def handle(self, command: Command, now_ms: int) -> list[Effect]:
        """Decide a command. A KafkaError of a client's command becomes a `Refuse`."""
        return self._handle(command, now_ms, may_wait=True)

    def stop(self, error: ErrorCode) -> list[Effect]:
        """Refuse every waiting request with `error`: this is no longer the coordinator of these ids."""
        effects: list[Effect] = []
        for transactional_id in list(self.shard.waiting):
            queue, stopped = take_waiting(self.shard, transactional_id)
            effects += [*stopped, *(Refuse(each.token, error) for each in queue)]
        return effects

    def check_invariants(self) -> None:
        """Assert the invariants that hold between any two commands; tests call it after each."""
        self.shard.check_invariants()

    def _handle(self, command: Command, now_ms: int, *, may_wait: bool) -> list[Effect]:
        try:
            effects = self._decide(command, now_ms, may_wait=may_wait)
        except KafkaError as error:
            token = getattr(command, "token", None)
            assert token is not None, (command, error)
            return [Refuse(token, error.code, error.detail)]
        for transactional_id in self._replay(effects):
            # Only once: a request that waited for one transaction does not wait for the next one, too.
            queue, stopped = take_waiting(self.shard, transactional_id)
            effects += stopped
            for each in queue:
                effects += self._handle(each, now_ms, may_wait=False)
        return effects

    def _replay(self, effects: list[Effect]) -> list[str]:
        """Replay the appended records; return the ids whose waiting requests are released."""
        shard, released = self.shard, []
        for effect in effects:
            if type(effect) is Append:
                for record in effect.records:
                    shard.replay(record)
                    if record.transactional_id in shard.waiting:
                        assert record.value is not None, record
                        if record.value.state not in PREPARED:
                            released.append(record.transactional_id)
        return released

    def _decide(self, command: Command, now_ms: int, *, may_wait: bool) -> list[Effect]:
        shard = self.shard
        match command:
            case AddPartitions():
                may_wait = may_wait and command.may_wait
                return add_partitions(shard, command, now_ms, may_wait=may_wait)
            case VerifyPartitions():
                return verify_partitions(shard, command)
            case EndTransaction():
                return end_transaction(shard, command, now_ms)
            case MarkersWritten():
                return markers_written(shard, command, now_ms)
            case InitProducer():
                may_wait = may_wait and command.may_wait
                return init_producer(shard, command, now_ms, may_wait=may_wait)
            case DescribeTransactions():
                return describe_transactions(shard, command)
            case ListTransactions():
                return list_transactions(shard, command, now_ms)
            case SweepTimeouts():
                return sweep_timeouts(shard, now_ms)
            case AbortTimedOut():
                return abort_timed_out(shard, command, now_ms)
            case SweepIds():
                return sweep_ids(shard, now_ms)
            case EndWaiting():
                return end_waiting(shard, command)
            case LevelChanged(level=level):
                shard.level = level
                return []
