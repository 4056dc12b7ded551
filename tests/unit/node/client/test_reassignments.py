"""The progress of a reassignment, from the sizes that brokers return for their replicas."""

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.log_dirs import BrokerLogDirs, LogDirView, ReplicaSize
from ottla.node.client.reassignments import progress_of
from ottla.node.wire.messages.list_partition_reassignments import OngoingPartitionReassignment

PLACE = TopicPartition("t", 0)
MOVE = OngoingPartitionReassignment(
    partition_index=0, replicas=[3, 4, 0], adding_replicas=[3, 4], removing_replicas=[0]
)


def broker(broker_id: int, *sizes: int, is_future: bool = False) -> BrokerLogDirs:
    replicas = [ReplicaSize(PLACE, size, 0, is_future) for size in sizes]
    return BrokerLogDirs(broker_id, None, [LogDirView("/d", None, None, None, replicas)])


def test_progress_is_measured_by_the_bytes_of_new_replicas() -> None:
    [one] = progress_of({PLACE: MOVE}, {PLACE: 0}, [broker(0, 1000), broker(3, 1000), broker(4, 500)])

    assert (one.bytes_left, one.percent) == (500, 75.0)
    assert [copy.copied_bytes for copy in one.copies] == [1000, 500]


def test_a_replica_that_is_not_started_has_no_bytes() -> None:
    [one] = progress_of({PLACE: MOVE}, {PLACE: 0}, [broker(0, 1000), broker(3), broker(4)])

    assert (one.bytes_left, one.percent) == (2000, 0.0)


def test_unknown_sizes_are_not_guessed() -> None:
    silent = BrokerLogDirs(4, KafkaError(ErrorCode.NETWORK_EXCEPTION, "no"), [])

    [one] = progress_of({PLACE: MOVE}, {PLACE: 0}, [broker(0, 1000), broker(3, 1000), silent])
    [leaderless] = progress_of({PLACE: MOVE}, {PLACE: -1}, [broker(3, 1000), broker(4, 1)])

    assert one.percent is None and one.bytes_left is None and leaderless.percent is None


def test_a_copy_for_another_directory_does_not_count() -> None:
    dirs = [broker(0, 1000), broker(3, 700, is_future=True), broker(4, 1000)]

    [one] = progress_of({PLACE: MOVE}, {PLACE: 0}, dirs)

    assert one.bytes_left == 1000


def test_an_empty_partition_is_copied_at_once() -> None:
    [one] = progress_of({PLACE: MOVE}, {PLACE: 0}, [broker(0, 0), broker(3, 0), broker(4, 0)])

    assert one.percent == 100.0
