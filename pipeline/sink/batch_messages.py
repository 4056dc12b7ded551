"""The messages between the driver and the tasks of a batch; pickled on their way."""

from dataclasses import dataclass

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.sink.commit_record import CommitRecord
from ottla.pipeline.sink.decisions import BatchRun
from ottla.pipeline.sink.slots import Participant


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The driver's message to the tasks of one batch.

    `generation` is the driver's pair of T-c; `driver_ticket` is the ticket that the driver itself took before
    the tasks could take theirs.
    """

    generation: ProducerPair
    driver_ticket: ProducerPair
    incarnation: int
    slots: tuple[Participant, ...]
    timeout_ms: int
    two_phase: bool
    record: CommitRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """A task's message: the transaction that it wrote in and did not end, or None if it had no rows."""

    run: BatchRun
    generation: ProducerPair
    driver_ticket: ProducerPair
    two_phase: bool
    participant: Participant | None
    partitions: frozenset[TopicPartition]
    is_drained: bool = False  # the batch was already written, and this task wrote nothing
