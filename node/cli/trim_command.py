"""`ottla topic trim`: deletes the oldest records of partitions. Returns the exit code."""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.node.cli.answers import Results
from ottla.node.cli.failure import EXIT_USAGE, CommandError, explain
from ottla.node.client import record_deletion, topic_admin
from ottla.node.client.cluster_client import Client
from ottla.node.client.moments import parse_moment


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimOptions:
    """The records to delete; no partitions means all, and exactly one of the two limits is given.

    An offset of LATEST is the end of each partition.
    """

    topic: str
    partitions: Sequence[int]
    before_offset: int | None
    before_ms: int | None
    dry_run: bool
    as_json: bool


def parse_offset(text: str) -> int:
    """Parse an offset, or `end` as LATEST; CommandError for anything else."""
    if text == "end":
        return topic_admin.LATEST
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    raise CommandError(f"--before-offset {text!r} is neither an offset nor end.", EXIT_USAGE)


def parse_timestamp(text: str) -> int:
    """Parse ms since 1970 or a date into ms; CommandError for anything else."""
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    try:
        return max(0, parse_moment(text))
    except ValueError as error:
        raise CommandError(f"{error}, or as ms since 1970.", EXIT_USAGE) from None


async def trim(client: Client, options: TrimOptions) -> int:
    """Delete the records before the limit in each partition, or print how many that would be."""
    async with client:
        done = await record_deletion.trim(
            client,
            options.topic,
            options.partitions,
            before_offset=options.before_offset,
            before_ms=options.before_ms,
            dry_run=options.dry_run,
        )
    with Results(as_json=options.as_json) as results:
        for one, before in done.before.items():
            row = {**one._asdict(), "first_offset": done.after.get(one), "trimmed": False, "error": None}
            if one in done.problems:
                results.fail(row, explain(done.problems[one]))
                continue
            words = "would begin" if options.dry_run else "begins now"
            after = done.after[one]
            line = f"{one} {words} at offset {after}, {after - before} offsets later than before"
            results.add({**row, "trimmed": not options.dry_run}, line)
    return results.exit_code
