"""Waiting requests are woken by the right change, once, and not before."""

from ottla.logstore.words.errors import ErrorCode
from ottla.node.replica.delayed_fetch import DelayedFetch
from ottla.node.replica.delayed_operation import DelayedOperation, check_all
from ottla.node.replica.delayed_produce import PRODUCES, DelayedProduce, RequiredOffset, later_of


class FakePartition:
    """The part of a partition that waiting requests use."""

    def __init__(self) -> None:
        self.delayed_fetches: dict[DelayedFetch, None] = {}
        self.delayed_produces: dict[DelayedProduce, None] = {}
        self.available_bytes: int | None = 0
        self.high_watermark = 0
        self.error: ErrorCode | None = None

    def acknowledgement_of(self, required: RequiredOffset) -> ErrorCode | None:
        if self.error is not None:
            return self.error
        return ErrorCode.NONE if self.high_watermark >= required.required_offset else None


def fetch_of(min_bytes: int, *partitions: FakePartition) -> tuple[DelayedFetch, list[str]]:
    woken: list[str] = []
    fetch = DelayedFetch(min_bytes=min_bytes, wake=lambda: woken.append("woken"))
    for partition in partitions:
        fetch.watch(partition, 0, lambda partition=partition: partition.available_bytes)  # type: ignore[misc]
    return fetch, woken


def changed(partition: FakePartition, available_bytes: int | None) -> None:
    partition.available_bytes = available_bytes
    check_all(partition.delayed_fetches, partition)


def test_a_fetch_wakes_when_its_partitions_have_enough_together() -> None:
    one, other = FakePartition(), FakePartition()
    _, woken = fetch_of(100, one, other)

    changed(one, 60)
    changed(one, 70)
    assert woken == []
    changed(other, 30)

    assert woken == ["woken"]
    assert one.delayed_fetches == other.delayed_fetches == {}


def test_a_fetch_wakes_when_a_partition_fails() -> None:
    one = FakePartition()
    _, woken = fetch_of(100, one)

    changed(one, None)

    assert woken == ["woken"]


def test_a_fetch_wakes_once() -> None:
    one = FakePartition()
    fetch, woken = fetch_of(1, one)

    changed(one, 5)
    fetch.check(one)
    fetch.finish()

    assert woken == ["woken"]


def test_a_cancelled_fetch_is_forgotten() -> None:
    one = FakePartition()
    fetch, woken = fetch_of(1, one)

    fetch.cancel()
    changed(one, 5)

    assert woken == []
    assert one.delayed_fetches == {}


def produce_of(*places: tuple[FakePartition, int]) -> tuple[DelayedProduce, list[str]]:
    woken: list[str] = []
    produce = DelayedOperation(PRODUCES, wake=lambda: woken.append("woken"))
    for partition, offset in places:
        produce.watch(partition, RequiredOffset(offset, 0))
    return produce, woken


def moved(partition: FakePartition, high_watermark: int) -> None:
    partition.high_watermark = high_watermark
    check_all(partition.delayed_produces, partition)


def test_a_produce_waits_for_every_partition() -> None:
    one, other = FakePartition(), FakePartition()
    produce, woken = produce_of((one, 10), (other, 20))

    moved(one, 10)
    moved(other, 19)
    assert woken == []
    moved(other, 20)

    assert woken == ["woken"]
    assert produce.results == {one: ErrorCode.NONE, other: ErrorCode.NONE}


def test_a_produce_that_expires_names_the_late_partitions() -> None:
    one, other = FakePartition(), FakePartition()
    produce, woken = produce_of((one, 10), (other, 20))
    moved(one, 10)

    produce.expire()

    assert woken == ["woken"]
    assert produce.results == {one: ErrorCode.NONE, other: ErrorCode.REQUEST_TIMED_OUT}
    assert other.delayed_produces == {}


def test_a_partition_that_fails_fails_alone() -> None:
    one, other = FakePartition(), FakePartition()
    produce, woken = produce_of((one, 10), (other, 20))

    one.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    moved(one, 0)
    moved(other, 25)

    assert woken == ["woken"]
    assert produce.results == {one: ErrorCode.NOT_LEADER_OR_FOLLOWER, other: ErrorCode.NONE}


def test_two_batches_of_one_request_wait_for_the_later() -> None:
    one = FakePartition()
    _, woken = produce_of((one, 20), (one, 10))

    moved(one, 15)
    assert woken == []
    moved(one, 20)
    assert woken == ["woken"]


def test_two_batches_of_one_request_count_in_the_leader_epoch_of_the_first() -> None:
    """A request served in turns may lose and regain its partition in between (KIP-101)."""
    first, last = RequiredOffset(10, 4), RequiredOffset(8, 6)

    assert later_of(None, first) == first
    assert later_of(first, last) == RequiredOffset(10, 4)
