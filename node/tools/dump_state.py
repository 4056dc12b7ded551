"""dump-metadata, dump-group and replay: print or check the state of an internal log.

dump-metadata prints the metadata in a log of `__cluster_metadata`, as the records that would create it.
dump-group prints the groups and offsets, the transactions, or the states of share-partitions in a partition
of a coordinator's topic. replay replays a log into its core and prints the first batch that fails. All of
them can stop at an offset (`--until`).
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.offsets.offset_values import read_offset_value
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.share.share_group import ShareGroup
from ottla.groupcoord.share_state.share_state_shard import ShareStateShard
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.metadata_raft.image import METADATA_TOPIC, MetadataImage
from ottla.metadata_raft.snapshot import image_records
from ottla.node.tools.closed_pipe import end_quietly
from ottla.node.tools.dump_log import EXIT_BROKEN, EXIT_USAGE
from ottla.node.tools.internal_records import (
    share_partition_fields,
    share_state_fields,
    transaction_fields,
)
from ottla.node.tools.replayed_log import (
    EVERYTHING,
    Replayed,
    State,
    UnreadableError,
    internal_topic_of,
    replayed,
)
from ottla.node.wire.describe import describe

METADATA, GROUP, REPLAY = "dump-metadata", "dump-group", "replay"
WORDS: Final = {
    METADATA: "Print the metadata in a directory of __cluster_metadata.",
    GROUP: (
        "Print the groups and offsets, the transactions, or the states of share-partitions, in a directory "
        "of a coordinator's topic."
    ),
    REPLAY: "Replay an internal log, and report the first batch that cannot be replayed.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a tool; return the exit code, 1 if the log is broken, 2 if there is no such log."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = _parse(words)
    try:
        is_metadata = internal_topic_of(options.directory) == METADATA_TOPIC
        if options.tool in (METADATA, GROUP) and (options.tool == METADATA) is not is_metadata:
            raise UnreadableError(
                f"{options.directory} has another kind of log: use "
                f"{GROUP if options.tool == METADATA else METADATA}."
            )
        found = replayed(options.directory, until=options.until)
    except (UnreadableError, OSError) as error:
        print(f"{options.tool}: {error}", file=sys.stderr)
        return EXIT_USAGE
    try:
        code = _replay(options, found) if options.tool == REPLAY else _dump(options, found)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of the output has gone
        return end_quietly()


def _parse(words: Sequence[str]) -> argparse.Namespace:
    tool = words[0] if words and words[0] in WORDS else REPLAY
    parser = argparse.ArgumentParser(prog=tool, description=WORDS[tool], add_help=False)
    parser.usage = f"{tool} [--until OFFSET] [--json] DIRECTORY\n{WORDS[tool]} Nothing is changed."
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("--until", type=int, default=EVERYTHING, metavar="OFFSET")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("directory", type=Path, nargs="?")
    options = parser.parse_args(words[1:] if words and words[0] in WORDS else words)
    options.tool = tool
    if options.help or options.directory is None:
        print(f"usage: {parser.usage}", file=sys.stdout if options.help else sys.stderr)
        raise SystemExit(0 if options.help else EXIT_USAGE)
    return options


def _dump(options: argparse.Namespace, found: Replayed) -> int:
    for kind, fields in rows_of(found.state):
        if options.json:
            print(json.dumps({"type": kind, **fields}))
        else:
            words = " ".join(f"{name}: {_text(value)}" for name, value in fields.items())
            print(f"{kind} {words}")
    print(f"{options.tool}: at offset {found.last_offset}", file=sys.stderr)
    return _verdict(options.tool, found.problem)


def _text(value: object) -> str:
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value)


def _verdict(tool: str, problem: str | None) -> int:
    if problem is None:
        return 0
    print(f"{tool}: {problem}", file=sys.stderr)
    return EXIT_BROKEN


# ---- rows ----------------------------------------------------------------------------------------


def rows_of(state: State) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the entries of a state, each with its kind and its fields."""
    match state:
        case MetadataImage():
            for record in image_records(state):
                yield type(record).__name__, describe(record)
        case GroupShard():
            yield from _groups(state)
        case TransactionShard():
            for name, transaction in sorted(state.transactions.items()):
                yield "transaction", {"transactional_id": name, **transaction_fields(transaction)}
        case ShareStateShard():
            for key, known in sorted(state.states.items(), key=lambda entry: entry[0].coordinator_key):
                words = share_partition_fields(key) | share_state_fields(known.current)
                yield "share-partition", words


def _groups(shard: GroupShard) -> Iterator[tuple[str, dict[str, Any]]]:
    for group_id, group in sorted(shard.groups.items()):
        fields: dict[str, Any] = {"group": group_id}
        if isinstance(group, ConsumerGroup | ShareGroup):
            fields |= {
                "protocol": "share" if isinstance(group, ShareGroup) else "consumer",
                "epoch": group.group_epoch,
                "assignment_epoch": group.assignment_epoch,
            }
        else:
            fields |= {
                "protocol": "classic",
                "state": group.state.value,
                "generation": group.generation_id,
                "assignor": group.protocol_name,
            }
        yield "group", fields | {"members": sorted(group.members)}
        for topic, partitions in sorted(shard.offsets.topics_of(group_id).items()):
            for number, value in sorted(partitions.items()):
                commit = read_offset_value(value)
                yield (
                    "offset",
                    {"group": group_id, "topic": topic, "partition": number, **describe(commit)},
                )


# ---- replay --------------------------------------------------------------------------------------


def _replay(options: argparse.Namespace, found: Replayed) -> int:
    rows = sum(1 for _ in rows_of(found.state))
    if found.problem is None:
        sentence = (
            f"{found.batches} batches up to offset {found.last_offset} were replayed "
            f"into {rows} entries without a problem."
        )
        print(json.dumps({"last_offset": found.last_offset, "problem": None}) if options.json else sentence)
        return 0
    offset = first_broken_offset(options.directory, found.last_offset)
    problem = found.problem if offset is None else f"From offset {offset} on: {found.problem}"
    print(json.dumps({"last_offset": found.last_offset, "problem": problem}) if options.json else problem)
    return EXIT_BROKEN


def first_broken_offset(directory: Path, last_offset: int) -> int | None:
    """Return the first offset after whose replay the state is broken, or None if none up to `last_offset` is.

    A binary search finds it, since a broken state stays broken.
    """
    low, high = 0, last_offset + 1
    while low < high:
        middle = (low + high) // 2
        if replayed(directory, until=middle).problem is None:
            low = middle + 1
        else:
            high = middle
    return low if low <= last_offset else None


if __name__ == "__main__":
    sys.exit(main())
