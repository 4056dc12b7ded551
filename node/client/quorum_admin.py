"""The metadata quorum: its leader, voters and observers, and their positions in the log."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.logstore.words.topic_partition import ZERO_UUID, uuid_to_text
from ottla.node.client.cluster_admin import ListenerAddress
from ottla.node.client.cluster_client import Client, check, only
from ottla.node.client.quorum_silence import moment_as_text
from ottla.node.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionDataRequest,
    PartitionDataResponse,
    ReplicaState,
    TopicDataRequest,
)

METADATA_TOPIC: Final = "__cluster_metadata"
COPIED_VOTER_ADVICE: Final = (
    "The directory was moved or restored from a backup, and may lack metadata that the voter had "
    "acknowledged. The voter cannot vote until it has received the metadata from a leader that a "
    "majority of the other voters follows, or until all voters are running. This happens without "
    "intervention. If too many other voters are lost for good, and the voter never ran elsewhere "
    "after the copy was made, stop it and run `ottla quorum trust-copy` with its data directory."
)


class QuorumMember(NamedTuple):
    """A voter or observer; -1 for an unknown time or offset, zeros for an unknown directory."""

    node_id: int
    is_voter: bool
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    is_disk_old: bool = False  # it cannot vote until it again has everything that it acknowledged
    is_disk_copied: bool = False  # it cannot vote until a leader knows what it may have acknowledged


class QuorumView(NamedTuple):
    """The state of the quorum at its leader."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    members: Sequence[QuorumMember]
    listeners: Mapping[int, Sequence[ListenerAddress]]
    cut_off_since_ms: int | None = None  # of the node that answered; its voters are of that time

    @property
    def voter_ids(self) -> list[int]:
        return [one.node_id for one in self.members if one.is_voter]


async def describe_quorum(client: Client, *, accepts_old: bool = False) -> QuorumView:
    """Return the state of the metadata quorum.

    Only its leader knows it; with `accepts_old`, a node that is cut off from all leaders returns what it
    knew.
    """
    request = DescribeQuorumRequest(
        topics=[TopicDataRequest(topic_name=METADATA_TOPIC, partitions=[PartitionDataRequest()])],
        accepts_old=accepts_old,
    )

    async def attempt() -> QuorumView:
        connection = await client.any_node()
        response = await connection.request(request, DescribeQuorumResponse, timeout_s=client.remaining_s)
        check(response.error_code, response.error_message, "the metadata quorum")
        topic = only(response.topics, "the metadata quorum")
        partition = only(topic.partitions, "the metadata quorum")
        check(partition.error_code, partition.error_message, "the metadata quorum")
        listeners = {
            node.node_id: [ListenerAddress(one.name, one.host, one.port) for one in node.listeners]
            for node in response.nodes
        }
        since_ms = response.cut_off_since_ms if response.cut_off_since_ms >= 0 else None
        return _view(partition, listeners)._replace(cut_off_since_ms=since_ms)

    return await client.retry(attempt)


def _view(partition: PartitionDataResponse, listeners: Mapping[int, Sequence[ListenerAddress]]) -> QuorumView:
    members = [_member(one, is_voter=True) for one in partition.current_voters]
    members += [_member(one, is_voter=False) for one in partition.observers]
    return QuorumView(
        partition.leader_id,
        partition.leader_epoch,
        partition.high_watermark,
        sorted(members, key=lambda one: (not one.is_voter, one.node_id)),
        listeners,
    )


def _member(state: ReplicaState, *, is_voter: bool) -> QuorumMember:
    return QuorumMember(
        state.replica_id,
        is_voter,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
        state.is_disk_old,
        state.is_disk_copied,
    )


def quorum_as_json(view: QuorumView) -> dict[str, Any]:
    """Return the quorum as a JSON object, with null for unknown values."""

    def row(one: QuorumMember) -> dict[str, Any]:
        return {
            "node": one.node_id,
            "directory_id": None if one.directory_id == ZERO_UUID else uuid_to_text(one.directory_id),
            "log_end_offset": known(one.log_end_offset),
            "last_fetch_ms": known(one.last_fetch_ms),
            "last_caught_up_ms": known(one.last_caught_up_ms),
            "is_disk_old": one.is_disk_old,
            "is_disk_copied": one.is_disk_copied,
            "listeners": [at._asdict() for at in view.listeners.get(one.node_id, ())],
        }

    return {
        "leader": view.leader_id if view.leader_id >= 0 else None,
        "leader_epoch": view.leader_epoch,
        "high_watermark": view.high_watermark,
        "voters": [row(one) for one in view.members if one.is_voter],
        "observers": [row(one) for one in view.members if not one.is_voter],
        "cut_off_since": None if view.cut_off_since_ms is None else moment_as_text(view.cut_off_since_ms),
    }


def known(number: int) -> int | None:
    """Return a number, or None for -1, which stands for an unknown one."""
    return number if number >= 0 else None
