"""A task's part of exactly-once: a slot of its own, taken with a ticket when the first row comes."""

from collections.abc import Sequence
from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.sink.batch_messages import Begun, TaskReport
from ottla.pipeline.sink.decisions import BatchRun
from ottla.pipeline.sink.sink_cluster import COORDINATING_TIMEOUT_MS, SinkCluster
from ottla.pipeline.sink.slots import FIRST_UNPREPARED, Names, Participant, Slot, tickets_between

NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()


class TaskTransaction:
    """The transaction of one attempt of one task, which the driver will end."""

    def __init__(self, names: Names, begun: Begun, run: BatchRun, cluster: SinkCluster) -> None:
        self._names = names
        self._begun = begun
        self._run = run
        self._cluster = cluster
        self._participant: Participant | None = None
        self._partitions = NO_PARTITIONS

    def take_slot(self) -> Participant:
        """Return a slot that no other attempt has, not even another attempt of this task."""
        name = self._names.tickets
        ticket = self._cluster.init([name], timeout_ms=COORDINATING_TIMEOUT_MS, two_phase=False)[name]
        number = tickets_between(self._begun.driver_ticket, ticket)
        if number is not None and number < len(self._begun.slots):
            self._participant = self._begun.slots[number]
        else:
            self._participant = self._unprepared(ticket)
        return self._participant

    def join(self, partitions: Sequence[TopicPartition]) -> None:
        """Add partitions to the transaction before rows are sent there; fails if a newer driver has begun."""
        assert self._participant is not None, "a slot comes first"
        name = self._names.id_of_slot(self._participant.slot)
        self._cluster.add_partitions(name, self._participant.pair, partitions)
        self._partitions |= {*partitions}

    def report(self, *, is_drained: bool = False) -> TaskReport:
        """Return the report for the driver, when all rows are in their logs or (`is_drained`) were before."""
        return TaskReport(
            run=self._run,
            generation=self._begun.generation,
            driver_ticket=self._begun.driver_ticket,
            two_phase=self._begun.two_phase,
            participant=self._participant,
            partitions=self._partitions,
            is_drained=is_drained,
        )

    def give_up(self) -> None:
        """Abort the transaction, so that it does not hold back readers; it is not reported to the driver."""
        if self._participant is not None:
            self._cluster.end(
                {self._names.id_of_slot(self._participant.slot): self._participant.pair}, commit=False
            )

    def _unprepared(self, ticket: ProducerPair) -> Participant:
        """Return a slot that bears the ticket's number, which no other attempt has."""
        slot = Slot(self._begun.incarnation, FIRST_UNPREPARED + ticket.epoch)
        name = self._names.id_of_slot(slot)
        given = self._cluster.init([name], timeout_ms=self._begun.timeout_ms, two_phase=self._begun.two_phase)
        return Participant(slot, given[name])
