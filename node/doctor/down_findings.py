"""Finds brokers that are down, and says the effects on partitions and voters in the sentence of the cause."""

from collections.abc import Collection, Iterator

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_health import Health
from ottla.node.doctor.finding import Finding, named, problem
from ottla.node.doctor.quorum_findings import QuorumFacts


def of_down(down: Collection[int], quorum: QuorumFacts | None, health: Health | None) -> Iterator[Finding]:
    """Yield one problem for all brokers that are down, since they share the effects."""
    if not down:
        return
    is_one = len(down) == 1
    ids = ", ".join(map(str, sorted(down)))
    subject = f"Broker {ids} is" if is_one else f"Brokers {ids} are"
    follows = [*_of_partitions(down, health), *_of_voters(down, quorum)]
    words = f": {'; '.join(follows)}" if follows else ""
    yield problem(
        "broker",
        f"{subject} down, starting or hanging (registered, but fenced){words}. "
        f"Start {'it' if is_one else 'them'}, or check the network.",
    )


def _of_partitions(down: Collection[int], health: Health | None) -> Iterator[str]:
    if health is None:
        return
    explained: set[TopicPartition] = set()
    for partitions, singular, plural in (
        (health.leaderless, "has no leader", "have no leader"),
        (health.under_min_isr, "rejects producers with acks=all", "reject producers with acks=all"),
        (health.under_replicated, "lacks a replica in sync", "lack a replica in sync"),
    ):
        lacking = [one for one in partitions if one not in explained and health.lacks_only(one, down)]
        explained |= set(lacking)
        if lacking:
            does = f"1 partition {singular}" if len(lacking) == 1 else f"{len(lacking)} partitions {plural}"
            yield f"{does} ({named(lacking)})"


def _of_voters(down: Collection[int], quorum: QuorumFacts | None) -> Iterator[str]:
    view = None if quorum is None else quorum.view
    voters = {one.node_id for one in view.members if one.is_voter} if view is not None else set()
    left = len(voters - set(down))
    if left < len(voters):
        words = f"{left} of {len(voters)} voters of the metadata quorum are left"
        is_last = left == len(voters) // 2 + 1
        yield f"{words}, and if one more fails, metadata cannot change" if is_last else words
