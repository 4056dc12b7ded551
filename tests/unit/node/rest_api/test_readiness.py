"""The readiness of a node, and the sentence that says why it is not ready."""

import pytest

from ottla.metadata_raft.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from ottla.node.metadata.broker_lifecycle import BrokerState
from ottla.node.rest_api.readiness import NodeStatus, partitions_behind, problem_of

IN_SYNC = PartitionImage(0, (0, 1, 2), (0, 1, 2), 0, 1, 1)
BEHIND = IN_SYNC._replace(isr=(0, 2))


def image_of(partition: PartitionImage) -> MetadataImage:
    return MetadataImage(topics=TopicsImage(by_name={"t": TopicImage("t", bytes(16), (partition,))}))


def node(partition: PartitionImage = IN_SYNC) -> NodeStatus:
    return NodeStatus(1, BrokerState.RUNNING, True, None, image_of(partition))


def test_a_node_that_serves_and_is_in_sync_is_ready() -> None:
    assert problem_of(node(), has_caught_up=False) is None


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (node()._replace(state=None, image=None), "is connecting to the metadata quorum"),
        (node()._replace(state=BrokerState.STARTING), "opening its logs"),
        (node()._replace(state=BrokerState.WAITING), "fenced"),
        (node()._replace(state=BrokerState.SHUTTING_DOWN), "shutting down"),
        (node()._replace(state=BrokerState.STOPPED), "shutting down"),
        (node()._replace(is_disk_old=True), "cannot vote until it has all the metadata"),
        (node()._replace(state=BrokerState.STARTING, is_disk_old=True), "was restored to an earlier state"),
        (node()._replace(is_disk_copied=True), "The data directory of this voter is a copy."),
        (node()._replace(is_disk_copied=True), "`ottla quorum trust-copy` with its data directory"),
        (node()._replace(cut_off_since_ms=0, waits_for="Start voter 2."), "is unknown. Start voter 2."),
        (node()._replace(is_serving=False), "does not accept clients"),
        (node()._replace(cut_off_since_ms=0), "cut off from the metadata quorum since 1970"),
        (node(BEHIND), "1 of its partitions are not in sync yet"),
    ],
)
def test_a_node_that_is_not_ready_gives_the_reason_in_a_sentence(state: NodeStatus, words: str) -> None:
    problem = problem_of(state, has_caught_up=False)

    assert problem is not None and words in problem and problem.endswith(".")


def test_a_replica_that_lags_later_takes_no_node_out_of_service() -> None:
    assert problem_of(node(BEHIND), has_caught_up=True) is None
    assert problem_of(node(BEHIND)._replace(cut_off_since_ms=0), has_caught_up=True) is not None


@pytest.mark.parametrize(
    ("partition", "behind"),
    [
        (IN_SYNC, 0),
        (BEHIND, 1),
        (BEHIND._replace(adding_replicas=(1,)), 0),  # a reassignment may take hours
        (BEHIND._replace(leader=-1), 0),  # there is no leader to catch up with
        (BEHIND._replace(replicas=(0, 2)), 0),
    ],
)
def test_a_node_counts_the_partitions_that_it_has_to_catch_up_with(
    partition: PartitionImage, behind: int
) -> None:
    assert partitions_behind(image_of(partition), 1) == behind


def test_a_node_that_waits_for_voters_names_them() -> None:
    node = NodeStatus(1, BrokerState.STARTING, False, None, None, "Waiting for voter 2 at host2:9093.")

    assert problem_of(node, has_caught_up=False) == "Waiting for voter 2 at host2:9093."
    serving = node._replace(state=BrokerState.RUNNING, is_serving=True)
    assert problem_of(serving, has_caught_up=True) is None


def test_a_node_that_is_not_ready_says_that_others_refuse_its_certificate() -> None:
    problem = "The certificate of the listener INNER expired on 2030-06-01."
    starting = NodeStatus(1, BrokerState.STARTING, False, None, None, certificate_problem=problem)

    assert (problem_of(starting, has_caught_up=False) or "").endswith(f". {problem}")
    ready = NodeStatus(1, BrokerState.RUNNING, True, None, None, certificate_problem=problem)
    assert problem_of(ready, has_caught_up=True) is None
