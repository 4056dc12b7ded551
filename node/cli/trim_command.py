"""`ottla topic trim`: delete the oldest records of partitions. Returns the exit code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.answers import Results
from ottla.node.cli.failure import EXIT_USAGE, CommandError, explain
from ottla.node.client import topic_admin
from ottla.node.client.cluster_client import Client, unknown_partition
from ottla.node.client.moments import parse_moment
from ottla.node.client.record_deletion import delete_records


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimOptions:
    """The records to delete; no partition stands for all, and exactly one of the two limits is given.

    An offset of LATEST is the end of each partition.
    """

    topic: str
    partitions: Sequence[int]
    before_offset: int | None
    before_ms: int | None
    dry_run: bool
    as_json: bool


def parse_offset(text: str) -> int:
    """Return `end` as LATEST and digits as an offset; CommandError for others."""
    if text == "end":
        return topic_admin.LATEST
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    raise CommandError(f"--before-offset {text!r} is neither an offset nor end.", EXIT_USAGE)


def parse_timestamp(text: str) -> int:
    """Return ms since 1970, given so or as a date; CommandError for others."""
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    try:
        return max(0, parse_moment(text))
    except ValueError as error:
        raise CommandError(f"{error}, or as ms since 1970.", EXIT_USAGE) from None


async def trim(client: Client, options: TrimOptions) -> int:
    """Delete the records before the limit in each partition, or tell how many that would be."""
    async with client:
        topic = await client.topic_as_it_is(options.topic)
        for number in options.partitions:
            if number not in topic.leaders:
                raise unknown_partition(topic, number)
        numbers = sorted(set(options.partitions) or topic.leaders)
        places = [TopicPartition(options.topic, number) for number in numbers]
        first = await topic_admin.list_offsets(client, dict.fromkeys(places, topic_admin.EARLIEST))
        ends = await topic_admin.list_offsets(client, dict.fromkeys(places, topic_admin.LATEST))
        limits = await _limits(client, places, {one: told.offset for one, told in ends.items()}, options)
        wanted = {one: max(limits[one], first[one].offset) for one in places}
        problems: Mapping[TopicPartition, KafkaError] = {}
        if not options.dry_run:
            told = await delete_records(client, wanted)
            wanted, problems = dict(told.found), told.problems
    with Results(as_json=options.as_json) as results:
        for one in places:
            row = {**one._asdict(), "first_offset": wanted.get(one), "trimmed": False, "error": None}
            if one in problems:
                results.fail(row, explain(problems[one]))
                continue
            count = wanted[one] - first[one].offset
            words = "would begin" if options.dry_run else "begins now"
            line = f"{one} {words} at offset {wanted[one]}, {count} offsets later than before"
            results.add({**row, "trimmed": not options.dry_run}, line)
    return results.exit_code


async def _limits(
    client: Client,
    places: Sequence[TopicPartition],
    ends: dict[TopicPartition, int],
    options: TrimOptions,
) -> dict[TopicPartition, int]:
    """Return the first offset that stays, by partition; CommandError for one beyond the end."""
    if options.before_ms is not None:
        found = await topic_admin.list_offsets(client, dict.fromkeys(places, options.before_ms))
        return {one: ends[one] if told.offset < 0 else told.offset for one, told in found.items()}
    offset = options.before_offset
    assert offset is not None, "one of them is given"
    if offset == topic_admin.LATEST:
        return ends
    for one in places:
        if offset > ends[one]:
            raise CommandError(
                f"{one} ends at offset {ends[one]}, before {offset}; nothing was deleted. Choose partitions "
                "with --partition, or use --before-offset end."
            )
    return dict.fromkeys(places, offset)
