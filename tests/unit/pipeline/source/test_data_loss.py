"""Losses of data, and the lag of a query."""

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.source.data_loss import (
    DataLossError,
    LossPolicy,
    is_replaced,
    losses_at_beginnings,
    losses_between,
    new_partitions,
)
from ottla.pipeline.source.progress import lag_between, lag_of_source
from ottla.pipeline.source.source_offsets import SourceOffsets
from ottla.pipeline.words import OptionError

OLD, NEW = bytes(15) + b"\1", bytes(15) + b"\2"
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def at(topic_id: bytes = OLD, **offsets: int) -> SourceOffsets:
    """Return offsets such as `at(a0=5)`; the topics have that id."""
    partitions = {TopicPartition(name[0], int(name[1])): offset for name, offset in offsets.items()}
    return SourceOffsets(offsets=partitions, topic_ids=dict.fromkeys("ab", topic_id))


@pytest.mark.parametrize(
    ("read", "ends", "losses"),
    [
        (at(a0=5), at(a0=5), []),
        (at(a0=5), at(a0=9, a1=3, b0=1), []),
        (at(a0=5, a1=1), at(a0=5), ["a-1 no longer exists; everything before offset 1 was read"]),
        (at(a0=5), at(a0=4), ["a-0 ends at offset 4, but everything before offset 5 was already read"]),
        (at(a0=5, a1=5), at(NEW, a0=9, a1=1), ["topic a was deleted and created again"]),
        (at(a0=5, a1=5), at(NEW, a0=9), ["topic a was deleted and created again"]),
    ],
)
def test_losses_are_reported(read: SourceOffsets, ends: SourceOffsets, losses: list[str]) -> None:
    assert losses_between(read, ends) == losses


def test_a_topic_without_a_known_id_counts_as_the_same() -> None:
    connector = SourceOffsets(offsets={A0: 5})

    assert not is_replaced("a", connector, at(a0=5))
    assert losses_between(connector, at(a0=5)) == []


def test_partitions_of_which_nothing_was_read_are_new() -> None:
    assert new_partitions(at(a0=5), at(a0=5, a1=2, b0=1)) == [A1, B0]
    assert new_partitions(at(a0=5), at(NEW, a0=5)) == [A0]


def test_an_added_partition_that_does_not_begin_at_0_has_lost_rows() -> None:
    assert losses_at_beginnings({A1: 3, B0: 0}, at(a0=1)) == ["a-1 was added, but begins at offset 3"]
    assert losses_at_beginnings({A0: 3}, at(a0=1)) == []


def test_losses_stop_a_query_or_are_logged() -> None:
    warnings: list[str] = []

    LossPolicy(fails=True, warn=warnings.append).report([])
    LossPolicy(fails=False, warn=warnings.append).report(["a-0 is gone"])
    with pytest.raises(
        DataLossError,
        match=r"a-0 is gone; b-0 is gone\. To continue with the rows that are left",
    ):
        LossPolicy(fails=True, warn=warnings.append).report(["a-0 is gone", "b-0 is gone"])

    assert warnings == [
        "rows are lost, but the query continues, because failOnDataLoss is false: a-0 is gone"
    ]


# ---- lag ----------------------------------------------------------------------------------------


def test_lag_is_reported_by_partition_and_in_the_connectors_metrics() -> None:
    lag = lag_between(at(a0=5, a1=9), at(a0=10, a1=9, b0=7))

    assert lag.by_partition == {A0: 5, A1: 0, B0: 7}
    assert lag.total == 12
    assert lag.metrics() == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "7",
        "avgOffsetsBehindLatest": "4.0",
    }


def test_a_topic_created_again_lags_by_all_its_records() -> None:
    assert lag_between(at(a0=5), at(NEW, a0=10)).total == 10


def test_without_partitions_there_are_no_metrics_of_lag() -> None:
    assert lag_between(at(), at()).metrics() == {}


@pytest.mark.parametrize("as_text", [True, False])
def test_lag_is_read_from_the_progress_of_a_query(as_text: bool) -> None:
    progress = (
        {"endOffset": '{"a": {"0": 5}}', "latestOffset": '{"a": {"0": 9}}'}
        if as_text
        else {"endOffset": {"a": {"0": 5}}, "latestOffset": {"a": {"0": 9}}}
    )

    lag = lag_of_source(progress)

    assert lag is not None
    assert lag.by_partition == {A0: 4}


def test_a_query_without_a_batch_has_no_lag_yet() -> None:
    assert lag_of_source({"endOffset": None, "latestOffset": '{"a": {"0": 9}}'}) is None
    assert lag_of_source({"endOffset": "null", "latestOffset": "null"}) is None


def test_offsets_of_another_source_are_refused() -> None:
    with pytest.raises(OptionError, match="endOffset"):
        lag_of_source({"endOffset": "7", "latestOffset": "9"})
