"""The readiness of a node: may clients be sent to it, and may the next node be restarted. Pure.

A node is ready when it serves, is not fenced, is in contact with the controller, and has caught up since its
start: all of its replicas whose partition has a leader have been in sync. After that, a lagging replica does
not make it unready again, or a busy disk would take the node away from its clients. Replicas that a
reassignment is adding do not count: they may take hours.
"""

from typing import Final, NamedTuple

from ottla.metadata_raft.image import MetadataImage
from ottla.node.client.quorum_admin import COPIED_VOTER_ADVICE
from ottla.node.client.quorum_silence import cut_off_sentence
from ottla.node.metadata.broker_lifecycle import BrokerState

# A header on every answer of a node that is cut off from the metadata quorum: its data is from that time.
CUT_OFF_SINCE: Final = "Ottla-Cut-Off-Since"
STILL_STARTING: Final = "This node is not ready: "  # begins log lines while it starts, before the reason


class NodeStatus(NamedTuple):
    """The state of the node; `state` is None before it has read its metadata."""

    node_id: int
    state: BrokerState | None
    is_serving: bool
    cut_off_since_ms: int | None
    image: MetadataImage | None
    waits_for: str | None = None  # a sentence with the voters that are missing for a majority
    is_disk_old: bool = False  # True: its voter may not vote, because its disk was rolled back
    is_disk_copied: bool = False  # True: its voter may not vote, because its directory is a copy
    certificate_problem: str | None = None  # a sentence: why other nodes refuse its certificate


def problem_of(node: NodeStatus, *, has_caught_up: bool) -> str | None:
    """Return why the node is not ready, in a sentence or two, or None if it is."""
    problem = _problem_of(node, has_caught_up=has_caught_up)
    if problem is None or node.certificate_problem is None:
        return problem
    return f"{problem} {node.certificate_problem}"


def _problem_of(node: NodeStatus, *, has_caught_up: bool) -> str | None:
    is_stopping = node.state in (BrokerState.SHUTTING_DOWN, BrokerState.STOPPED)
    if node.is_disk_copied and not is_stopping:
        return f"The data directory of this voter is a copy. {COPIED_VOTER_ADVICE}"
    if node.is_disk_old and not is_stopping:
        return (
            "The disk of this voter was restored to an earlier state: it cannot vote until it "
            "has all the metadata that it had acknowledged."
        )
    if node.waits_for is not None and node.state in (None, BrokerState.STARTING, BrokerState.WAITING):
        return node.waits_for
    if node.cut_off_since_ms is not None and not is_stopping:
        sentence = cut_off_sentence(node.cut_off_since_ms)
        return sentence if node.waits_for is None else f"{sentence} {node.waits_for}"
    match node.state:
        case None:
            return "The node is connecting to the metadata quorum, or reading the metadata log."
        case BrokerState.STARTING:
            return "The node is registering with the controller, or opening its logs."
        case BrokerState.WAITING:
            return (
                "The controller has fenced the node: its metadata is not up to date yet, or it was cut off."
            )
        case BrokerState.SHUTTING_DOWN | BrokerState.STOPPED:
            return "The node is shutting down."
        case BrokerState.RUNNING:
            pass
    if not node.is_serving:
        return "The node does not accept clients yet."
    if has_caught_up or node.image is None:
        return None
    behind = partitions_behind(node.image, node.node_id)
    if behind:
        return f"The node has started, but {behind} of its partitions are not in sync yet."
    return None


def partitions_behind(image: MetadataImage, node_id: int) -> int:
    """Return the number of replicas here that are out of sync though their partition has a leader.

    Replicas that a reassignment is adding do not count.
    """
    return sum(
        node_id in one.replicas
        and node_id not in one.isr
        and node_id not in one.adding_replicas
        and one.leader >= 0
        for topic in image.topics.by_name.values()
        for one in topic.partitions
    )
