"""Judges the metadata quorum: a leader, a majority, voters that follow it, and a single cluster."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ottla.node.client.quorum_admin import COPIED_VOTER_ADVICE, QuorumView
from ottla.node.doctor.finding import Finding, note, problem

# A voter fetches several times a second; after this silence it is down, hangs or is cut off.
SILENT_MS: Final = 10_000
# A voter that is further behind, in records, has been slow for longer than a moment.
BEHIND_ENTRIES: Final = 10_000


class UnlinkedFacts(NamedTuple):
    """The missing links of a voter: by node, the other voter's address and the reason, as it reports them."""

    node_id: int
    problems: Mapping[int, str]


def of_links(facts: Iterable[UnlinkedFacts], down: Collection[int] = ()) -> Iterator[Finding]:
    """Yield a problem for each missing link, as each end reports it, except links to nodes that are down."""
    for one in facts:
        for node_id, peer in one.problems.items():
            if node_id not in down:
                yield problem("quorum", f"Node {one.node_id} is not connected to {peer}.")


class QuorumFacts(NamedTuple):
    """The state of the quorum, or the failure to get it."""

    view: QuorumView | None
    failure: str | None
    now_ms: int  # by the clock of the quorum's leader, like the times in the view
    cluster_ids: Mapping[str, str]  # that nodes returned, by address


def of_quorum(facts: QuorumFacts, down: Collection[int] = ()) -> Iterator[Finding]:
    """Yield the problems of the quorum, except those caused by brokers that are reported as down."""
    yield from _of_cluster_ids(facts.cluster_ids)
    view = facts.view
    if view is None:
        yield problem(
            "quorum",
            f"The metadata quorum does not answer ({facts.failure}). Without its leader, topics, "
            "groups and partition leaders cannot change: start more of its voters.",
        )
        return
    if view.leader_id < 0:
        yield problem(
            "quorum",
            "The metadata quorum has no leader: start voters until more than half of them are running.",
        )
    yield from _of_voters(view, facts.now_ms, down)


def _of_voters(view: QuorumView, now_ms: int, down: Collection[int]) -> Iterator[Finding]:
    voters = [one for one in view.members if one.is_voter]
    end = max((one.log_end_offset for one in view.members), default=0)
    silent = [
        one
        for one in voters
        if one.node_id != view.leader_id and (one.last_fetch_ms < 0 or now_ms - one.last_fetch_ms > SILENT_MS)
    ]
    for one in silent:
        if one.node_id in down:
            continue
        since = (
            f"has never contacted the leader {view.leader_id}"
            if one.last_fetch_ms < 0
            else f"last contacted the leader {view.leader_id} {(now_ms - one.last_fetch_ms) / 1000:.0f} s ago"
        )
        yield problem("quorum", f"Voter {one.node_id} {since}: start the node, or check the network.")
    for one in voters:
        # A leader that has just been elected does not know the logs of the others yet.
        if one not in silent and 0 <= one.log_end_offset < end - BEHIND_ENTRIES:
            yield problem(
                "quorum", f"Voter {one.node_id} is {end - one.log_end_offset} metadata records behind."
            )
    for one in voters:
        if one.is_disk_copied:
            yield problem(
                "quorum", f"The data directory of voter {one.node_id} is a copy. {COPIED_VOTER_ADVICE}"
            )
    for one in voters:
        if one.is_disk_old:
            yield problem(
                "quorum",
                f"The disk of voter {one.node_id} was restored to an earlier state: it cannot "
                "vote until it has received all the metadata that it had acknowledged. This "
                "happens without intervention.",
            )
    alive = len(voters) - len(silent)
    if voters and alive <= len(voters) // 2:
        yield problem(
            "quorum",
            f"Only {alive} of {len(voters)} voters follow the leader, which is not a "
            "majority: metadata cannot change.",
        )
    elif not {one.node_id for one in silent} <= set(down) and alive == len(voters) // 2 + 1:
        yield problem(
            "quorum",
            f"Only {alive} of {len(voters)} voters follow the leader: if one more fails, metadata "
            "cannot change.",
        )
    if voters and len(voters) % 2 == 0:
        yield note(
            "quorum",
            f"There are {len(voters)} voters; an even number tolerates no more failures than "
            "one voter less: use an odd number.",
        )
    directories: dict[int, set[bytes]] = defaultdict(set)
    for one in voters:
        directories[one.node_id].add(one.directory_id)
    for node_id, found in sorted(directories.items()):
        if len(found) > 1:
            yield problem(
                "quorum",
                f"Voter {node_id} is registered with {len(found)} disks: remove the lost one with "
                f"`ottla quorum remove {node_id} --directory-id ID`.",
            )


def _of_cluster_ids(cluster_ids: Mapping[str, str]) -> Iterator[Finding]:
    by_id: dict[str, list[str]] = defaultdict(list)
    for address, cluster_id in sorted(cluster_ids.items()):
        by_id[cluster_id].append(address)
    if len(by_id) > 1:
        listed = "; ".join(f"{', '.join(found)} to {cluster_id}" for cluster_id, found in by_id.items())
        yield problem("quorum", f"These addresses belong to {len(by_id)} different clusters: {listed}.")
