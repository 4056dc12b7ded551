"""What the driver tells the tasks of a batch, and what each of them tells it; pickled on its way."""

from dataclasses import dataclass

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.sink.commit_record import CommitRecord
from ottla.pipeline.sink.decisions import BatchRun
from ottla.pipeline.sink.slots import Participant


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What the tasks of one batch are told. `generation` is the driver's pair of T-c, `first_ticket` the last
    one that is not theirs."""

    generation: ProducerPair
    first_ticket: ProducerPair
    incarnation: int
    slots: tuple[Participant, ...]
    timeout_ms: int
    two_phase: bool
    record: CommitRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What one task tells: the transaction that it wrote in and did not end, None if it had no rows."""

    run: BatchRun
    generation: ProducerPair
    first_ticket: ProducerPair
    two_phase: bool
    participant: Participant | None
    partitions: frozenset[TopicPartition]
    is_drained: bool = False  # the batch is there already, and this task wrote nothing
