"""Finds partitions that cannot be read or written, and those that one more failure would make so."""

from collections.abc import Collection, Iterable, Iterator

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_health import Health
from ottla.node.doctor.finding import Finding, named, note, problem


def of_partitions(health: Health | None, down: Collection[int] = ()) -> Iterator[Finding]:
    """Yield a finding for each kind of problem; none if the health is unknown (None).

    The effects of brokers that are `down` are reported in the finding about these brokers.
    """
    if health is None:
        return

    def others(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [one for one in partitions if not health.lacks_only(one, down)]

    leaderless = others(health.leaderless)
    if leaderless:
        yield problem(
            "partition",
            f"No leader: {named(leaderless)}. Start the brokers that have in-sync "
            "replicas of these partitions.",
        )
    without = set(health.leaderless)
    refused = [one for one in others(health.under_min_isr) if one not in without]
    if refused:
        yield problem(
            "partition",
            f"Fewer replicas in sync than min.insync.replicas: {named(refused)}. Producers with "
            "acks=all are rejected until more replicas have caught up.",
        )
    reported = {*without, *refused}
    behind = [one for one in others(health.under_replicated) if one not in reported]
    if behind:
        yield note(
            "partition",
            f"Not all replicas in sync: {named(behind)}. The others are catching up, or are down.",
        )
    if health.sharing_racks:
        yield note(
            "partition",
            f"Replicas share a rack, although there are more racks: {named(health.sharing_racks)}. If the "
            "rack fails, these replicas fail together. Move them with `ottla topic reassign`.",
        )
