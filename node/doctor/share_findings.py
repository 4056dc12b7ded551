"""Share groups whose oldest record is retried, or held, while the start offset does not move."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ottla.logstore.words.escaped_text import escape_controls
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.doctor.finding import Finding, named, note, problem
from ottla.node.share.record_state import RecordState
from ottla.node.wire.messages.describe_share_partitions import InFlightRange, InFlightState

# A record that fails at once reaches its limit in no time, and one whose lock ends each time within minutes.
RETRIED_MS: Final = 60_000
LEAST_DELIVERIES: Final = 2
# Work that lasts longer than this is rare, and holds up the memory of all that is done behind it.
HELD_MS: Final = 600_000


class ShareFacts(NamedTuple):
    """The state of a share group in one partition, as the partition's leader tells it."""

    group_id: str
    partition: TopicPartition
    state: InFlightState


def of_share_groups(facts: Iterable[ShareFacts], *, retried_ms: int | None = None) -> Iterator[Finding]:
    """Name each group once for what is retried, and once for what is held; `retried_ms` is for how long."""
    least_ms = RETRIED_MS if retried_ms is None else retried_ms
    retried: dict[str, list[str]] = {}
    held: dict[str, list[str]] = {}
    for group_id, partition, state in facts:
        oldest = state.oldest
        if oldest is None or oldest.state == RecordState.WAITING:
            continue  # the group has a back-off, or the topic a delay: nobody is to have it now
        if oldest.delivery_count >= LEAST_DELIVERIES and state.stalled_ms >= least_ms:
            retried.setdefault(group_id, []).append(_words(partition, oldest, state))
        elif oldest.member_id is not None and state.stalled_ms >= HELD_MS:
            held.setdefault(group_id, []).append(_words(partition, oldest, state))
    for group_id, places in sorted(retried.items()):
        yield problem(
            "share group",
            f"Share group {escape_controls(group_id)} tries the same record again and again, and its start "
            f"offset does not move: {named(places, separator='; ')}. Look at the record with `ottla consume "
            "TOPIC -p PARTITION -o OFFSET -n 1`, have a worker reject it, or mend the worker.",
        )
    for group_id, places in sorted(held.items()):
        yield note(
            "share group",
            f"Share group {escape_controls(group_id)} has worked on the same record for long: "
            f"{named(places, separator='; ')}. Others get the records behind it, but it renews its lock.",
        )


def _words(partition: TopicPartition, oldest: InFlightRange, state: InFlightState) -> str:
    times = "once" if oldest.delivery_count == 1 else f"{oldest.delivery_count} times"
    holder = "" if oldest.member_id is None else f", now by {escape_controls(oldest.member_id)}"
    return (
        f"offset {oldest.first_offset} of {partition}, delivered {times} of at most "
        f"{state.delivery_count_limit}{holder}, is the oldest since {state.stalled_ms // 1000} s"
    )
