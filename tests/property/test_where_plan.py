"""`where` keeps exactly the records that meet it, with any other options of a batch."""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import eq, ge, gt, le, lt, ne
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.list_offsets import EARLIEST, LATEST
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.source import batch_plan, log_ends
from ottla.pipeline.source.batch_plan import bind, plan_batch
from ottla.pipeline.source.data_loss import LossPolicy
from ottla.pipeline.source.source_options import Mode, SourceOptions

OPERATORS = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
FIELDS = {"topic": 0, "partition": 1, "offset": 2, "timestamp": 3}
TOPICS = ("a", "b", "c")
Row = tuple[str, int, int, int]  # topic, partition, offset, timestamp in milliseconds
Term = tuple[str, str, tuple[str | int, ...]]


@dataclass
class Log:
    """A log of records with unordered timestamps and with gaps, as compaction and markers leave them."""

    start: int
    end: int
    records: dict[int, int]  # timestamp by offset


@dataclass
class Topic:
    """A topic of the cluster, with the attributes that a plan needs."""

    leaders: dict[int, None]
    topic_id: bytes = bytes(16)


@dataclass
class Logs:
    """A cluster for the plan of a batch; `requested` has the topics whose offsets were requested."""

    logs: dict[TopicPartition, Log]
    requested: set[str] = field(default_factory=set)

    def topics(self, names: list[str]) -> dict[str, Any]:
        return {
            name: Topic({one.partition: None for one in self.logs if one.topic == name})
            for name in names
            if any(one.topic == name for one in self.logs)
        }

    def topics_matching(self, pattern: re.Pattern[str]) -> dict[str, Any]:
        return self.topics([name for name in TOPICS if pattern.fullmatch(name)])

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = {}
        for partition, moment in wanted.items():
            self.requested.add(partition.topic)
            log = self.logs[partition]
            if moment in (EARLIEST, LATEST):
                found[partition] = log.start if moment == EARLIEST else log.end
                continue
            late = [offset for offset, at in sorted(log.records.items()) if at >= moment]
            if late:
                found[partition] = late[0]
        return found

    def grow(self, chance: random.Random, *, adds_partition: bool) -> None:
        """Append new records to the logs, and perhaps add a partition."""
        for partition in sorted(self.logs):
            log = self.logs[partition]
            for offset in range(log.end, log.end + chance.randrange(4)):
                log.records[offset] = chance.randrange(30)
                log.end = offset + 1
        if adds_partition:
            self.logs.setdefault(TopicPartition("a", 3), Log(start=0, end=2, records={0: 3, 1: 17}))


def make_logs(chance: random.Random) -> Logs:
    logs = {}
    for topic in TOPICS:
        for number in range(chance.randrange(1, 4)):
            start = chance.randrange(6)
            end = start + chance.randrange(25)
            kept = [offset for offset in range(start, end) if chance.randrange(5)]
            logs[TopicPartition(topic, number)] = Log(
                start=start, end=end, records={offset: chance.randrange(30) for offset in kept}
            )
    return Logs(logs)


def written(term: Term) -> str:
    column, operator, values = term
    shown = [f"'{one}'" if isinstance(one, str) else str(one) for one in values]
    return (
        f"{column} {operator} ({', '.join(shown)})" if "IN" in operator else f"{column} {operator} {shown[0]}"
    )


def meets(row: Row, terms: list[Term]) -> bool:
    for column, operator, values in terms:
        has: Any = row[FIELDS[column]]
        if "IN" in operator:
            if (has in values) is not (operator == "IN"):
                return False
        elif not OPERATORS[operator](has, values[0]):
            return False
    return True


numbers = {"partition": st.integers(-1, 4), "offset": st.integers(-2, 32), "timestamp": st.integers(-3, 31)}


@st.composite
def term(draw: st.DrawFn) -> Term:
    column = draw(st.sampled_from(tuple(FIELDS)))
    operator = draw(st.sampled_from((*OPERATORS, "IN", "NOT IN")))
    value: st.SearchStrategy[Any] = numbers.get(column, st.sampled_from((*TOPICS, "aa")))
    return column, operator, tuple(draw(st.lists(value, min_size=1, max_size=4)))


subscriptions = st.sampled_from(
    [
        {"subscribe": "a,b,c"},
        {"subscribePattern": "[ab]"},
        {"assign": '{"a": [0], "b": [0], "c": [0]}'},
    ]
)
limits = st.sampled_from(
    [
        {},
        {"startingTimestamp": "9", "startingOffsetsByTimestampStrategy": "latest"},
        {"endingTimestamp": "20"},
        {"startingOffsets": "json"},
        {"endingOffsets": "json"},
    ]
)
cuts = st.fixed_dictionaries(
    {},
    optional={
        "minPartitions": st.integers(1, 12).map(str),
        "maxRecordsPerPartition": st.integers(1, 9).map(str),
    },
)


def with_offsets(options: dict[str, str], logs: Logs) -> dict[str, str]:
    """Return the options with offsets, as JSON, of each partition that they subscribe to."""
    read = SourceOptions.from_options(
        {name: text for name, text in options.items() if text != "json"}, Mode.BATCH
    )
    subscribed = batch_plan.find_subscribed(cast(Cluster, logs), read.subscription).partitions
    offsets = {
        topic: {str(one.partition): logs.logs[one].start + 2 for one in subscribed if one.topic == topic}
        for topic in sorted({one.topic for one in subscribed})
    }
    return {
        name: str(offsets).replace("'", '"') if text == "json" else text for name, text in options.items()
    }


def rows_of(logs: Logs, options: dict[str, str], chance: random.Random | None) -> list[Row]:
    """Return the rows that the tasks of a plan read, each asking for its ranges as the logs are then."""
    read, cluster = SourceOptions.from_options(options, Mode.BATCH), cast(Cluster, logs)
    policy = LossPolicy(fails=False, warn=lambda _text: None)
    tasks = plan_batch(cluster, read, policy)
    assert tasks, "Spark makes a task of its own of a plan that has none"
    if chance is not None:
        # Offsets in JSON name all partitions: a new one fails the batch.
        logs.grow(
            chance, adds_partition="{" not in options.get("startingOffsets", options.get("endingOffsets", ""))
        )
    rows = []
    for part in (part for parts in tasks for part in parts):
        for one in bind(cluster, read, part, policy):
            assert one.start < one.end
            records = logs.logs[one.partition].records
            rows += [
                (*one.partition, offset, records[offset])
                for offset in range(one.start, one.end)
                if offset in records and records[offset] in read.where.timestamps_ms
            ]
            # A plan is exact about offsets: it requests none that `where` leaves out.
            assert all(offset in read.where.offsets for offset in range(one.start, one.end))
    return rows


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    terms=st.lists(term(), min_size=1, max_size=4),
    subscription=subscriptions,
    limit=limits,
    cut=cuts,
    grows=st.booleans(),
)
def test_the_rows_of_a_filtered_batch_are_the_filtered_rows_of_the_batch(
    seed: int,
    terms: list[Term],
    subscription: dict[str, str],
    limit: dict[str, str],
    cut: dict[str, str],
    grows: bool,
) -> None:
    where = " AND ".join(map(written, terms))
    plain = {"kafka.bootstrap.servers": "h:1", "failOnDataLoss": "false", **subscription, **limit, **cut}
    seen: list[list[Row]] = []
    for more in ({}, {"where": where}):
        chance = random.Random(seed)
        logs = make_logs(chance)
        options = with_offsets({**plain, **more}, logs)
        with pytest.MonkeyPatch.context() as patched:
            for module in (batch_plan, log_ends):
                patched.setattr(module, "list_offsets", lambda cluster, wanted: cluster.list_offsets(wanted))
            seen.append(rows_of(logs, options, chance if grows else None))
        if more:
            excluded = {topic for topic in TOPICS if not may_have_rows(topic, terms)}
            assert not excluded & logs.requested, "no log of a topic that is left out is asked for"
    whole, filtered = seen

    assert len(set(whole)) == len(whole)
    assert sorted(filtered) == sorted(row for row in whole if meets(row, terms))


def may_have_rows(topic: str, terms: list[Term]) -> bool:
    return meets((topic, 0, 0, 0), [one for one in terms if one[0] == "topic"])
