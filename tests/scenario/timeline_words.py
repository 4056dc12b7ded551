"""A rebalance of a timeline in words."""

from ottla.groupcoord.timeline import Rebalance


def in_words(rebalance: Rebalance) -> str:
    events = "; ".join(
        " ".join(filter(None, (event.cause.value, event.client_id, event.reason and repr(event.reason))))
        for event in rebalance.events
    )
    if rebalance.ended_ms is None:
        return f"generation {rebalance.generation_before} -> ?: {events}"
    seconds = (rebalance.ended_ms - rebalance.began_ms) / 1000
    return (
        f"generation {rebalance.generation_before} -> {rebalance.generation_after} in {seconds:g} s, "
        f"{rebalance.members} members: {events}"
    )
