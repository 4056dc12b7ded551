"""Partitions that cannot be written to or read, and those that one more failure would make so."""

from collections.abc import Iterator

from ottla.node.client.cluster_health import Health
from ottla.node.doctor.finding import Finding, named, note, problem


def of_partitions(health: Health | None) -> Iterator[Finding]:
    """A finding for each kind of trouble; none where nobody could be asked (None)."""
    if health is None:
        return
    if health.leaderless:
        yield problem(
            "partition",
            f"Nobody leads {named(health.leaderless)}: start the brokers that have their replicas in sync.",
        )
    leaderless = set(health.leaderless)
    refused = [one for one in health.under_min_isr if one not in leaderless]
    if refused:
        yield problem(
            "partition",
            f"Fewer replicas than min.insync.replicas are in sync of {named(refused)}: producers with"
            " acks=all are refused until their followers are back.",
        )
    told = {*leaderless, *refused}
    behind = [one for one in health.under_replicated if one not in told]
    if behind:
        yield note("partition", f"Replicas are not in sync of {named(behind)}: they copy, or are down.")
