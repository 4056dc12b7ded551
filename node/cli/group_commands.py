"""`ottla group ...`: runs the commands and prints their results. Each returns the exit code."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli import group_tables
from ottla.node.cli.answers import Results, print_json
from ottla.node.cli.failure import EXIT_FAILURE, EXIT_USAGE, CommandError, explain, print_broker_problems
from ottla.node.client import group_admin, group_as_json, group_lag, group_offsets, group_reset
from ottla.node.client.cluster_client import Client, check
from ottla.node.client.group_admin import GroupView
from ottla.node.client.group_lag import PartitionLag
from ottla.node.client.group_member import PROTOCOL_TYPE
from ottla.node.client.group_offsets import Change, Target, ToFile
from ottla.node.client.group_reset import Topics
from ottla.node.client.moments import moment_text
from ottla.node.client.refusal import Refused
from ottla.node.client.share_group_admin import SHARE, delete_share_starts

# As Apache Kafka writes them; options are accepted in any case.
STATES = (
    "Stable",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
)
TYPES = ("classic", "consumer", "share", "streams")
Lags = Mapping[TopicPartition, PartitionLag]
R = TypeVar("R")
MAX_PLAN_BYTES = 64 * 1024 * 1024  # of --from-file: over a million partitions


def parse_words(text: str | None, known: Sequence[str], noun: str) -> list[str]:
    """Parse `stable,empty` into the words of `known`; CommandError for any other word."""
    spelled = {word.lower(): word for word in known}
    words = [word.strip().lower() for word in (text or "").split(",") if word.strip()]
    wrong = [word for word in words if word not in spelled]
    if wrong:
        raise CommandError(f"Unknown {noun} {wrong[0]!r}; use {', '.join(known)}.", EXIT_USAGE)
    return [spelled[word] for word in words]


def parse_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """Parse `TOPIC` and `TOPIC:P,P` into partitions by topic; CommandError for anything else."""
    topics: dict[str, list[int] | None] = {}
    for text in texts:
        try:
            name, numbers = group_offsets.parse_partitions(text)
        except ValueError as error:
            raise CommandError(f"{error}.", EXIT_USAGE) from None
        known = topics.get(name, [])
        topics[name] = None if numbers is None or known is None else sorted({*known, *numbers})
    return topics


# ---- list, describe, members ---------------------------------------------------------------------


async def list_all(client: Client, states: Sequence[str], types: Sequence[str], as_json: bool) -> int:
    async with client:
        listed = await group_admin.list_groups(client, states=states, types=types)
    if as_json:
        print_json(group_tables.groups_as_json(listed.groups))
    else:
        group_tables.print_groups(listed.groups)
    return print_broker_problems(listed.problems, "groups")


async def describe(
    client: Client, group_ids: Sequence[str], *, every: bool, timeline: bool, as_json: bool
) -> int:
    async with client:
        names, code = await _select_groups(client, group_ids, every, with_share=True)

        async def look(client: Client, group_id: str) -> tuple[GroupView, Lags]:
            view = await group_admin.describe_group(client, group_id)
            return view, await _lags(client, view, {}, with_age=False)

        views, missed = await _look_at_each(client, names, look)
    found = list(views.values())
    code = code or missed
    if as_json:
        groups = [group_tables.group_as_json(view, lags) for view, lags in found]
        if timeline:
            for group, (view, _) in zip(groups, found, strict=True):
                group["rebalances"] = group_as_json.timeline_as_json(view)
        print_json(groups)
        return code
    for number, (view, lags) in enumerate(found):
        if number:
            print()
        group_tables.print_group(view, lags)
        if timeline:
            group_tables.print_timeline(view)
    return code


async def members(client: Client, group_id: str, verbose: bool, as_json: bool) -> int:
    async with client:
        view = await group_admin.describe_group(client, group_id)
    if as_json:
        print_json(group_tables.members_as_json(view))
    else:
        group_tables.print_members(view, verbose=verbose)
    return 0


async def _select_groups(
    client: Client, group_ids: Sequence[str], every: bool, *, with_share: bool = False
) -> tuple[list[str], int]:
    """Return the groups that were named, or all; and the exit code for brokers whose groups are unknown.

    A command that changes groups leaves share groups out of all, since their records would be delivered
    again.
    """
    if not every:
        return list(dict.fromkeys(group_ids)), 0
    listed = await group_admin.list_groups(client, states=(), types=())
    consumers = ("", PROTOCOL_TYPE)  # Connect's workers and others have no partitions
    names = [
        one.group_id
        for one in listed.groups
        if (with_share if one.group_type.lower() == SHARE else one.protocol_type in consumers)
    ]
    return names, print_broker_problems(listed.problems, "groups")


async def _look_at_each(
    client: Client, group_ids: Sequence[str], look: Callable[[Client, str], Awaitable[R]]
) -> tuple[dict[str, R], int]:
    """Call `look` for each group; return the results and the exit code.

    A group whose look-up fails with a retriable error is named on stderr and left out. KafkaError if it is
    the only one, or if the error is not retriable.
    """
    found: dict[str, R] = {}
    code = 0
    for place, group_id in enumerate(group_ids):
        # A group that must be waited for leaves the others their share of the time.
        mine = client.until(client.deadline.share(len(group_ids) - place))
        try:
            found[group_id] = await look(mine, group_id)
        except KafkaError as error:
            if len(group_ids) == 1 or not error.code.retriable:
                raise
            print(f"ottla: group {group_id} is not shown: {explain(error)}", file=sys.stderr)
            code = EXIT_FAILURE
    return found, code


async def _lags(
    client: Client, view: GroupView, topics: Topics, *, with_age: bool
) -> dict[TopicPartition, PartitionLag]:
    """Return the lag of all partitions that the group committed or reads; only of these topics, if any."""

    def is_wanted(partition: TopicPartition) -> bool:
        return not topics or _is_selected(partition, topics)

    assigned = group_tables.owners_of(view)
    if view.group_type == SHARE:
        return await group_lag.of_share_group(
            client, view.group_id, assigned, is_wanted=is_wanted, with_in_flight=True
        )
    return await group_lag.of_group(client, view.group_id, assigned, is_wanted=is_wanted, with_age=with_age)


def _is_selected(partition: TopicPartition, topics: Topics) -> bool:
    numbers = topics.get(partition.topic, ())
    return numbers is None or partition.partition in numbers


# ---- lag -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LagOptions:
    """The options of `ottla group lag`; a limit of None is no limit."""

    group_ids: tuple[str, ...]
    every: bool
    topics: Topics
    watch_s: float | None
    max_records: int | None
    max_age_s: float | None
    as_json: bool


async def lag(client: Client, options: LagOptions) -> int:
    """Print the lag, repeatedly with --watch; return 1 as soon as the lag of a group exceeds a limit."""

    async def look(client: Client, group_id: str) -> Lags:
        view = await group_admin.describe_group(client, group_id)
        return await _lags(client, view, options.topics, with_age=True)

    async with client:
        while True:
            client = client.renewed()  # each round has the whole timeout
            names, code = await _select_groups(client, options.group_ids, options.every, with_share=True)
            found, missed = await _look_at_each(client, names, look)
            code = code or missed
            _show_lag(found, options)
            problems = [
                words for group_id, one in found.items() for words in _exceeded_limits(group_id, one, options)
            ]
            if problems:
                print("\n".join(problems), file=sys.stderr)
                return EXIT_FAILURE
            if options.watch_s is None:
                return code
            await asyncio.sleep(options.watch_s)


def _show_lag(found: Mapping[str, Mapping[TopicPartition, PartitionLag]], options: LagOptions) -> None:
    if options.as_json:
        print_json([group_tables.lag_as_json(*one) for one in found.items()])
        return
    if options.watch_s is not None:
        print(f"at {moment_text(int(time.time() * 1000))}")
    for number, (group_id, lags) in enumerate(found.items()):
        if number:
            print()
        group_tables.print_lag(group_id, lags)
    sys.stdout.flush()


def _exceeded_limits(
    group_id: str, lags: Mapping[TopicPartition, PartitionLag], options: LagOptions
) -> Iterable[str]:
    records, age_ms = group_tables.total_lag(lags)
    if options.max_records is not None and records > options.max_records:
        yield f"group {group_id} lags by {records} records, more than {options.max_records}"
    if options.max_age_s is not None and age_ms is not None and age_ms > options.max_age_s * 1000:
        yield f"group {group_id} lags by {age_ms / 1000:.1f} s, more than {options.max_age_s:g} s"


# ---- reset ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOptions:
    """The options of `ottla group reset`; topics of None are all with committed offsets of the group."""

    group_ids: tuple[str, ...]
    every: bool
    topics: Topics | None
    execute: bool
    export: bool
    as_json: bool


async def reset(client: Client, target: Target, options: ResetOptions) -> int:
    """Plan the resets of all groups, then change their offsets; 1 if a group of --all was skipped."""
    plans: dict[str, list[Change]] = {}
    shared: set[str] = set()
    async with client:
        named, code = await _select_groups(client, options.group_ids, options.every)
        for place, group_id in enumerate(named):
            if options.every and isinstance(target, ToFile) and group_id not in target.offsets:
                continue
            # A group that must wait for a leader leaves the others their share of the time.
            mine = client.until(client.deadline.share(len(named) - place))
            try:
                if await group_reset.check_has_no_members(mine, group_id):
                    shared.add(group_id)
                plans[group_id] = await group_reset.plan(
                    mine, group_id, target, options.topics, is_share=group_id in shared
                )
            except Refused as refused:
                if not options.every:
                    raise
                print(f"ottla: {refused}", file=sys.stderr)
                code = EXIT_FAILURE
        _warn(plans)
        if options.execute:
            for group_id, changes in plans.items():
                await group_reset.apply(client, group_id, changes, is_share=group_id in shared)
    if options.export:
        print(group_offsets.plan_text(plans), end="")
    elif options.as_json:
        print_json(group_as_json.changes_as_json(plans))
    else:
        group_tables.print_changes(plans)
    if not options.execute:
        print("nothing was changed: this was a dry run. Add --execute to make the change.", file=sys.stderr)
    return code


def _warn(plans: Mapping[str, Sequence[Change]]) -> None:
    for changes in plans.values():
        for one in changes:
            if one.warning is not None:
                print(f"warning: {one.warning}", file=sys.stderr)


def read_plan(path: Path, group_ids: Sequence[str]) -> ToFile:
    """Return the offsets in a file; CommandError that names an invalid line."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PLAN_BYTES + 1)
        if len(content) > MAX_PLAN_BYTES:
            raise CommandError(f"{path} is larger than {MAX_PLAN_BYTES} bytes.")
        return ToFile(group_offsets.parse_plan(content.decode(), group_ids))
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8 text.") from None
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise CommandError(f"{path}: {error}") from None


# ---- delete --------------------------------------------------------------------------------------


async def delete(
    client: Client, group_ids: Sequence[str], *, every: bool, if_exists: bool, as_json: bool
) -> int:
    """Delete all groups that can be deleted; 1 if one could not."""
    async with client:
        names, code = await _select_groups(client, group_ids, every)
        with Results(as_json=as_json) as results:
            for group_id in names:
                row = {"group": group_id, "deleted": False}
                try:
                    await group_admin.delete_group(client, group_id)
                except KafkaError as error:
                    if error.code is ErrorCode.GROUP_ID_NOT_FOUND and if_exists:
                        results.add({**row, "error": None}, f"{group_id} does not exist")
                        continue
                    if error.code is ErrorCode.NETWORK_EXCEPTION:
                        raise
                    results.fail(row, explain(error))
                    continue
                results.add({**row, "deleted": True, "error": None}, f"deleted {group_id}")
    return code or results.exit_code


async def delete_offsets(client: Client, group_id: str, topics: Topics, *, as_json: bool) -> int:
    """Delete the committed offsets of partitions; 1 if one could not be deleted."""
    async with client:
        if await _is_share(client, group_id):
            return await _delete_share_offsets(client, group_id, topics, as_json=as_json)
        partitions = await group_reset.partitions_of(client, topics)
        errors = await group_admin.delete_offsets(client, group_id, partitions)
    with Results(as_json=as_json) as results:
        for partition, error_code in sorted(errors.items()):
            row = {"group": group_id, **partition._asdict(), "deleted": False}
            try:
                check(error_code, None, f"the offset of {partition}")
            except KafkaError as error:
                results.fail(row, explain(error))
                continue
            line = f"deleted the offset of {partition} from {group_id}"
            results.add({**row, "deleted": True, "error": None}, line)
    return results.exit_code


async def _is_share(client: Client, group_id: str) -> bool:
    """Return True if a group is a share group; False if it does not exist, which a later request reports."""
    try:
        return (await group_admin.describe_group(client, group_id)).group_type == SHARE
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return False
        raise


async def _delete_share_offsets(client: Client, group_id: str, topics: Topics, *, as_json: bool) -> int:
    """Delete the offsets of whole topics, as Kafka's API for share groups does; 1 if one failed."""
    for name, numbers in topics.items():
        if numbers is not None:
            raise CommandError(
                f"A share group loses whole topics; write --topic {name} without partitions.", EXIT_USAGE
            )
    answers = await delete_share_starts(client, group_id, topics)
    with Results(as_json=as_json) as results:
        for name, (error_code, message) in sorted(answers.items()):
            row = {"group": group_id, "topic": name, "partition": None, "deleted": False}
            try:
                check(error_code, message, f"topic {name}")
            except KafkaError as error:
                results.fail(row, explain(error))
                continue
            line = f"deleted the offsets of {name} from {group_id}"
            results.add({**row, "deleted": True, "error": None}, line)
    return results.exit_code
