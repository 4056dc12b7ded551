"""The transactional ids of one partition of `__transaction_state`.

`transactions`, and state derived from it, changes in `replay` only. The rest is soft state, which a new
coordinator lacks: it sends markers to all partitions again, waiting clients send their requests again, and it
does not know a client's last connection.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla.groupcoord.transactions.transaction import Transaction, check_transaction
from ottla.groupcoord.transactions.transaction_commands import WaitingCommand
from ottla.groupcoord.transactions.transaction_config import MAX_WAITING, MAX_WAITING_OF_ID, TransactionConfig
from ottla.groupcoord.transactions.transaction_records import TransactionRecord
from ottla.groupcoord.transactions.transaction_state import PREPARED, TransactionState
from ottla.logstore.words.topic_partition import TopicPartition


class EndedBy(NamedTuple):
    """The producer that ended a transaction in this epoch, and its last connection."""

    producer_id: int
    producer_epoch: int
    connection_number: int


class TransactionShard:
    """The state of one coordinator.

    `level` is that of `transaction.version`; `coordinator_epoch` is the leader epoch under which this node
    leads the partition.
    """

    def __init__(self, config: TransactionConfig, *, level: int, coordinator_epoch: int) -> None:
        self.config = config
        self.level = level
        self.coordinator_epoch = coordinator_epoch
        self.transactions: dict[str, Transaction] = {}
        self.has_room: Callable[[], bool] = lambda: True  # True if this node has memory for more ids
        # Derived: ids in Ongoing; and the partitions of decided transactions that have no marker yet.
        self.ongoing: dict[str, None] = {}
        self.markers_left: dict[str, set[TopicPartition]] = {}
        # Soft.
        self.waiting: dict[str, list[WaitingCommand]] = {}
        self.waiting_count = 0
        self.ended_by: dict[str, EndedBy] = {}
        self.ids_to_sweep: deque[str] = deque()

    def replay(self, record: TransactionRecord) -> None:
        """Apply a record to the state: the one place where durable state changes."""
        transactional_id, t = record
        if t is None:
            self.transactions.pop(transactional_id, None)
            self.ongoing.pop(transactional_id, None)
            self.markers_left.pop(transactional_id, None)
            self.ended_by.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = t
        state = t.state
        if state is TransactionState.ONGOING:
            self.ongoing[transactional_id] = None
            return
        self.ongoing.pop(transactional_id, None)
        if state in PREPARED:
            self.markers_left[transactional_id] = set(t.partitions)
        else:
            self.markers_left.pop(transactional_id, None)

    def check_invariants(self) -> None:
        """Assert the invariants that hold between any two commands; tests call it after each."""
        decided = set()
        for transactional_id, t in self.transactions.items():
            assert t.transactional_id == transactional_id, t
            check_transaction(t)
            if t.state in PREPARED:
                decided.add(transactional_id)
                assert self.markers_left[transactional_id] <= t.partitions, t
            assert (transactional_id in self.ongoing) == (t.state is TransactionState.ONGOING), t
        assert self.markers_left.keys() == decided and self.ongoing.keys() <= self.transactions.keys()
        assert all(self.markers_left.values()), "a transaction without partitions is complete at once"
        assert self.waiting.keys() <= decided
        assert self.waiting_count == sum(map(len, self.waiting.values())) <= MAX_WAITING
        assert all(0 < len(queue) <= MAX_WAITING_OF_ID for queue in self.waiting.values())
        assert self.ended_by.keys() <= self.transactions.keys()
