"""Groups, members, lag and resets as text and as JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.logstore.words.escaped_text import escape_controls
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli import share_group_tables
from ottla.node.cli.topic_commands import print_table
from ottla.node.client.group_admin import ConsumerMemberView, GroupView, ListedGroup, RebalanceView
from ottla.node.client.group_as_json import duration_ms
from ottla.node.client.group_lag import PartitionLag
from ottla.node.client.group_offsets import Change
from ottla.node.client.moments import moment_text
from ottla.node.client.share_group_admin import SHARE
from ottla.node.client.share_group_as_json import in_flight_as_json

Lags = Mapping[TopicPartition, PartitionLag]


# ---- groups --------------------------------------------------------------------------------------


def print_groups(groups: Sequence[ListedGroup]) -> None:
    if groups:
        print_table(
            ("group", "type", "state", "protocol", "coordinator"),
            [
                (one.group_id, one.group_type or None, one.state or None, one.protocol_type or None, one[-1])
                for one in groups
            ],
        )


def groups_as_json(groups: Sequence[ListedGroup]) -> list[dict[str, Any]]:
    return [
        {
            "group": one.group_id,
            "type": one.group_type or None,
            "state": one.state or None,
            "protocol_type": one.protocol_type,
            "coordinator": one.coordinator_id,
        }
        for one in groups
    ]


def print_group(view: GroupView, lags: Lags) -> None:
    """Print the group in one line, then its partitions."""
    epoch = "" if view.epoch is None else f"  epoch {view.epoch}"
    if view.target_epoch != view.epoch:
        epoch += f" (assigned {view.target_epoch})"
    assignor = f"  assignor {view.assignor}" if view.assignor else ""
    members = f"{len(view.members)} member{'' if len(view.members) == 1 else 's'}"
    print(
        f"group {escape_controls(view.group_id)}  {view.group_type}  {view.state}{epoch}{assignor}  {members}"
        f"  coordinator {view.coordinator}"
    )
    if lags and view.group_type == SHARE:
        counts = Counter(one for member in view.members for one in member.partitions or ())
        share_group_tables.print_partitions(lags, counts)
    elif lags:
        owners = owners_of(view)
        print_table(
            ("topic", "partition", "committed", "end", "lag", "member"),
            [
                (
                    one.topic,
                    one.partition,
                    lag.committed_offset,
                    lag.log_end_offset,
                    lag.records,
                    owners.get(one),
                )
                for one, lag in lags.items()
            ],
        )


def group_as_json(view: GroupView, lags: Lags) -> dict[str, Any]:
    owners = owners_of(view)
    if view.group_type == SHARE:
        partitions = [_share_place_as_json(one, lag, view) for one, lag in lags.items()]
    else:
        partitions = [_place_as_json(one, lag) | {"member": owners.get(one)} for one, lag in lags.items()]
    return {
        "group": view.group_id,
        "type": view.group_type,
        "state": view.state,
        "protocol_type": view.protocol_type,
        "assignor": view.assignor or None,
        "epoch": view.epoch,
        "target_epoch": view.target_epoch,
        "coordinator": view.coordinator,
        "members": members_as_json(view),
        "partitions": partitions,
    }


def _share_place_as_json(partition: TopicPartition, lag: PartitionLag, view: GroupView) -> dict[str, Any]:
    """Return a partition of a share group, which several members may read at once."""
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "start": lag.committed_offset,
        "end": lag.log_end_offset,
        "lag": lag.records,
        "members": [one.member_id for one in view.members if partition in (one.partitions or ())],
        "in_flight": None if lag.in_flight is None else in_flight_as_json(lag.in_flight),
    }


def print_timeline(view: GroupView) -> None:
    """Print the last rebalances with their events, the newest last."""
    if view.rebalances is None:
        print("This server does not record the rebalances of its groups.")
    elif not view.rebalances:
        print("There was no rebalance since the current coordinator took over the group.")
    else:
        print_table(
            ("began", "seconds", "generation", "members", "why"),
            [
                (
                    moment_text(one.began_ms),
                    seconds_text(duration_ms(one)),
                    f"{one.generation_before} -> {one.generation_after or '?'}",
                    one.members,
                    "; ".join(events_text(one)),
                )
                for one in view.rebalances
            ],
        )


def events_text(rebalance: RebalanceView) -> list[str]:
    texts = []
    for one in rebalance.events:
        member = f" {one.member_id}" if one.member_id else ""
        texts.append(f"{one.cause}{member}" + (f" ({one.reason})" if one.reason else ""))
    if rebalance.events_left_out:
        texts.append(f"{rebalance.events_left_out} more")
    return texts


def owners_of(view: GroupView) -> dict[TopicPartition, str]:
    """Return the member that reads each partition."""
    return {one: member.member_id for member in view.members for one in member.partitions or ()}


# ---- members -------------------------------------------------------------------------------------


def print_members(view: GroupView, *, verbose: bool) -> None:
    heads = ["member", "instance", "client", "host", "partitions"]
    rows: list[list[object]] = [
        [one.member_id, one.instance_id, one.client_id, one.host, _count(one.partitions)]
        for one in view.members
    ]
    if view.epoch is not None:
        heads += ["protocol", "epoch"]
        for row, one in zip(rows, view.members, strict=True):
            row += [None, None] if one.consumer is None else [one.consumer.protocol, one.consumer.epoch]
    if verbose:
        heads.append("assigned")
        for row, one in zip(rows, view.members, strict=True):
            row.append(partitions_text(one.partitions or ()) or None)
    if verbose and view.epoch is not None:
        heads.append("target")
        for row, one in zip(rows, view.members, strict=True):
            row.append(partitions_text(one.consumer.target if one.consumer else ()) or None)
    if rows:
        print_table(heads, rows)


def _count(partitions: Sequence[TopicPartition] | None) -> int | None:
    return None if partitions is None else len(partitions)


def members_as_json(view: GroupView) -> list[dict[str, Any]]:
    return [
        {
            "member": one.member_id,
            "instance": one.instance_id,
            "client": one.client_id,
            "host": one.host,
            "partitions": None if one.partitions is None else _partitions_as_json(one.partitions),
        }
        | ({} if one.consumer is None else _consumer_as_json(one.consumer))
        for one in view.members
    ]


def _consumer_as_json(consumer: ConsumerMemberView) -> dict[str, Any]:
    return {
        "protocol": consumer.protocol,
        "epoch": consumer.epoch,
        "target": _partitions_as_json(consumer.target),
        "topics": list(consumer.topics),
        "expression": consumer.expression,
    }


def _partitions_as_json(partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": number} for topic, number in partitions]


def partitions_text(partitions: Sequence[TopicPartition]) -> str:
    """Return partitions as options accept them: `orders:0,1 payments:2`."""
    by_topic: dict[str, list[str]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(str(number))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items())


# ---- lag -----------------------------------------------------------------------------------------


def print_lag(group_id: str, lags: Lags) -> None:
    """Print the total lag of a group in one line, then that of each partition."""
    records, age_ms = total_lag(lags)
    count = f"{records} record{'' if records == 1 else 's'}"
    print(f"group {escape_controls(group_id)}  lag {count}, {seconds_text(age_ms)} s")
    if lags:
        print_table(
            ("topic", "partition", "committed", "end", "lag", "seconds"),
            [
                (
                    one.topic,
                    one.partition,
                    lag.committed_offset,
                    lag.log_end_offset,
                    lag.records,
                    seconds_text(lag.age_ms),
                )
                for one, lag in lags.items()
            ],
        )


def lag_as_json(group_id: str, lags: Lags) -> dict[str, Any]:
    records, age_ms = total_lag(lags)
    return {
        "group": group_id,
        "lag": records,
        "seconds": _seconds(age_ms),
        "partitions": [
            _place_as_json(one, lag) | {"seconds": _seconds(lag.age_ms)} for one, lag in lags.items()
        ],
    }


def _place_as_json(one: TopicPartition, lag: PartitionLag) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "committed": lag.committed_offset,
        "end": lag.log_end_offset,
        "lag": lag.records,
    }


def total_lag(lags: Lags) -> tuple[int, int | None]:
    """Return the lag of all partitions in records, and the greatest age in ms, None if all are unknown."""
    ages = [lag.age_ms for lag in lags.values() if lag.age_ms is not None]
    return sum(lag.records or 0 for lag in lags.values()), max(ages, default=None)


def _seconds(age_ms: int | None) -> float | None:
    return None if age_ms is None else age_ms / 1000


def seconds_text(age_ms: int | None) -> str:
    return "-" if age_ms is None else f"{age_ms / 1000:.1f}"


# ---- resets --------------------------------------------------------------------------------------


def print_changes(plans: Mapping[str, Sequence[Change]]) -> None:
    rows = [
        (group_id, one.partition.topic, one.partition.partition, one.before, one.after)
        for group_id, changes in plans.items()
        for one in changes
    ]
    if rows:
        print_table(("group", "topic", "partition", "offset", "new offset"), rows)
