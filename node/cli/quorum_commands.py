"""`ottla quorum ...`: shows the metadata quorum, adds and removes voters. Each returns the exit code."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.logstore.disk import OsDisk
from ottla.logstore.volume import DirectoryLock
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, uuid_from_text, uuid_to_text
from ottla.metadata_raft.quorum_state import QUORUM_STATE, read_quorum_state, write_quorum_state
from ottla.node.cli.answers import answer, print_json
from ottla.node.cli.failure import EXIT_USAGE, CommandError
from ottla.node.cli.topic_commands import print_table
from ottla.node.client import cluster_admin
from ottla.node.client.cluster_admin import ListenerAddress
from ottla.node.client.cluster_client import Client, check, parse_bootstrap
from ottla.node.client.quorum_admin import (
    METADATA_TOPIC,
    QuorumMember,
    QuorumView,
    describe_quorum,
    known,
    quorum_as_json,
)
from ottla.node.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from ottla.node.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

CONTROLLER: Final = "CONTROLLER"  # the default name of a controller listener


# ---- output --------------------------------------------------------------------------------------


async def status(client: Client, as_json: bool) -> int:
    async with client:
        view = await describe_quorum(client, accepts_old=True)
    now_ms = int(time.time() * 1000)
    if as_json:
        print_json(quorum_as_json(view))
        return 0
    leader = view.leader_id if view.leader_id >= 0 else "unknown"
    print(f"leader {leader}  epoch {view.leader_epoch}  high watermark {view.high_watermark}")
    end = max((one.log_end_offset for one in view.members), default=0)
    print_table(
        ("node", "is", "log end", "behind", "heard of", "caught up", "directory", "listens at"),
        [
            (
                one.node_id,
                _role(view, one),
                known(one.log_end_offset),
                None if one.log_end_offset < 0 else end - one.log_end_offset,
                _ago(one.last_fetch_ms, now_ms),
                _ago(one.last_caught_up_ms, now_ms),
                None if one.directory_id == ZERO_UUID else uuid_to_text(one.directory_id),
                ",".join(f"{at.host}:{at.port}" for at in view.listeners.get(one.node_id, ())) or None,
            )
            for one in view.members
        ],
    )
    return 0


def _role(view: QuorumView, member: QuorumMember) -> str:
    if member.is_disk_copied:
        return "voter, cannot vote yet: copied disk"
    if member.node_id == view.leader_id:
        return "leader"
    if member.is_disk_old:
        return "voter, cannot vote yet: old disk"
    return "voter" if member.is_voter else "observer"


def _ago(at_ms: int, now_ms: int) -> str | None:
    return None if at_ms < 0 else f"{max(0, now_ms - at_ms) / 1000:.1f} s ago"


# ---- changes -------------------------------------------------------------------------------------


async def add(
    client: Client, node_id: int, endpoint: str | None, directory: str | None, as_json: bool
) -> int:
    given = None if directory is None else parse_directory_id(directory)
    where = None if endpoint is None else parse_endpoint(endpoint)
    async with client:
        view = await describe_quorum(client)
        if node_id in view.voter_ids:
            raise CommandError(f"Node {node_id} is already a voter; `ottla quorum status` shows all voters.")
        directory_id = given or _directory_of(view, node_id, is_voter=False)
        listener = await _listener_of(client, view, node_id, where)
        cluster = await cluster_admin.describe_cluster(client)

        async def attempt() -> None:
            connection = await client.controller()
            request = AddRaftVoterRequest(
                cluster_id=cluster.cluster_id,
                timeout_ms=client.remaining_ms,
                voter_id=node_id,
                voter_directory_id=directory_id,
                listeners=[Listener(name=listener.name, host=listener.host, port=listener.port)],
            )
            response = await connection.request(request, AddRaftVoterResponse, timeout_s=client.remaining_s)
            # An earlier attempt may have succeeded, and its response may be lost.
            if response.error_code != ErrorCode.DUPLICATE_VOTER:
                check(response.error_code, response.error_message, f"voter {node_id}")

        await client.retry(attempt)
    voters = sorted([*view.voter_ids, node_id])
    answer(
        {"node": node_id, "is_voter": True, "voters": voters},
        f"node {node_id} is a voter now; the voters are {_listed(voters)}",
        as_json=as_json,
    )
    return 0


def trust_copy(directory: Path, as_json: bool) -> int:
    """Let the voter of a stopped node use a copied directory as its own."""
    metadata, disk = directory / f"{METADATA_TOPIC}-0", OsDisk()
    if not (metadata / QUORUM_STATE).exists():
        raise CommandError(
            f"{directory} holds no metadata log of a voter: give the metadata.log.dir of the node, or "
            "the first of its log.dirs.",
            EXIT_USAGE,
        )
    lock = DirectoryLock(directory)
    try:
        state = read_quorum_state(disk, metadata)
        assert state is not None
        if state.copied_from is None:
            line = f"{directory} is not a copy: its voter can vote already."
            answer({"directory": str(directory), "changed": False}, line, as_json=as_json)
            return 0
        write_quorum_state(disk, metadata, state._replace(copied_from=None))
    finally:
        lock.release()
    line = f"{directory} is trusted now; start its node."
    answer({"directory": str(directory), "changed": True}, line, as_json=as_json)
    return 0


async def remove(client: Client, node_id: int, directory: str | None, as_json: bool) -> int:
    given = None if directory is None else parse_directory_id(directory)
    async with client:
        view = await describe_quorum(client)
        if node_id not in view.voter_ids:
            raise CommandError(f"Node {node_id} is not a voter; the voters are {_listed(view.voter_ids)}.")
        cluster = await cluster_admin.describe_cluster(client)
        request = RemoveRaftVoterRequest(
            cluster_id=cluster.cluster_id,
            voter_id=node_id,
            voter_directory_id=given or _directory_of(view, node_id, is_voter=True),
        )
        is_repeated = False

        async def attempt() -> None:
            nonlocal is_repeated
            connection = await client.controller()
            was_repeated, is_repeated = is_repeated, True
            response = await connection.request(
                request, RemoveRaftVoterResponse, timeout_s=client.remaining_s
            )
            if not (was_repeated and response.error_code == ErrorCode.VOTER_NOT_FOUND):
                check(response.error_code, response.error_message, f"voter {node_id}")

        await client.retry(attempt)
    rest = sorted(one for one in view.voter_ids if one != node_id)
    answer(
        {"node": node_id, "is_voter": False, "voters": rest},
        f"node {node_id} is not a voter any more; the voters are {_listed(rest)}",
        as_json=as_json,
    )
    return 0


def _directory_of(view: QuorumView, node_id: int, *, is_voter: bool) -> bytes:
    """Return the directory id of a voter or observer; zeros for a voter without a recorded one.

    CommandError if the node is not among them, or is an observer without a directory id.
    """
    for one in view.members:
        if one.node_id == node_id and one.is_voter is is_voter:
            if one.directory_id == ZERO_UUID and not is_voter:
                break
            return one.directory_id
    raise CommandError(
        f"Node {node_id} does not follow the metadata quorum: start it with a CONTROLLER listener and "
        "with controller.quorum.bootstrap.servers."
    )


async def _listener_of(
    client: Client, view: QuorumView, node_id: int, given: tuple[str, int] | None
) -> ListenerAddress:
    """Return the controller listener of a new voter: the given address, or the one in its own settings."""
    known = [at for listeners in view.listeners.values() for at in listeners]
    name = known[0].name if known else CONTROLLER
    if given is not None:
        return ListenerAddress(name, *given)
    try:
        return await cluster_admin.controller_listener(client, node_id)
    except KafkaError as error:
        raise CommandError(
            f"Node {node_id} could not be asked for the address of its controller listener "
            f"({error.detail}); give it with --endpoint HOST:PORT."
        ) from None


def parse_endpoint(text: str) -> tuple[str, int]:
    """Parse HOST:PORT; CommandError for anything else."""
    try:
        addresses = parse_bootstrap(text)
    except ValueError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    if len(addresses) != 1 or not text.rpartition(":")[2].isdigit():
        raise CommandError(f"{text!r} is not a single address; write host:port.", EXIT_USAGE)
    return addresses[0]


def parse_directory_id(text: str) -> bytes:
    """Parse the 22 characters of a UUID into its 16 bytes; CommandError for anything else."""
    try:
        return uuid_from_text(text)
    except KafkaError:
        raise CommandError(
            f"{text!r} is not a directory id: one has 22 characters, as `ottla quorum status` shows it.",
            EXIT_USAGE,
        ) from None


def _listed(node_ids: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(node_ids)))
