"""`ottla topic ...`: runs the commands and prints their results. Each returns the exit code."""

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.escaped_text import escape_controls
from ottla.logstore.words.topic_partition import TopicPartition, uuid_to_text
from ottla.node.cli.answers import Results, answer, print_json
from ottla.node.client import topic_admin
from ottla.node.client.ask_leaders import for_lookup
from ottla.node.client.cluster_client import Client
from ottla.node.client.cluster_health import partition_states
from ottla.node.client.topic_admin import EligibleReplicas
from ottla.node.wire.messages.metadata import MetadataResponseTopic


async def create(
    client: Client,
    names: Sequence[str],
    partitions: int,
    replicas: int,
    configs: Mapping[str, str],
    if_not_exists: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    async with client:
        with Results(as_json=as_json) as results:
            for name in names:
                row: dict[str, object] = {"topic": name, "created": False, "partitions": None}
                try:
                    made = await topic_admin.create_topic(
                        client,
                        name,
                        partitions=partitions,
                        replicas=replicas,
                        configs=configs,
                        only_check=dry_run,
                    )
                except KafkaError as error:
                    if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
                        results.add(row, f"{name} already exists")
                        continue
                    raise
                size = f" with {counted(made.num_partitions, 'partition')}" if made.num_partitions > 0 else ""
                row |= {"created": not dry_run, "partitions": made.num_partitions if size else None}
                results.add(row, f"{name} could be created{size}" if dry_run else f"created {name}{size}")
    return 0


async def list_all(client: Client, with_internal: bool, as_json: bool) -> int:
    async with client:
        topics = await topic_admin.describe_topics(client, None)
    rows = [
        {
            "name": topic.name,
            "partitions": len(topic.partitions),
            "replicas": max((len(one.replica_nodes) for one in topic.partitions), default=0),
            "internal": topic.is_internal,
        }
        for topic in topics
        if with_internal or not topic.is_internal
    ]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(("topic", "partitions", "replicas"), [tuple(row.values())[:3] for row in rows])
    return 0


async def describe(client: Client, names: Sequence[str], as_json: bool) -> int:
    described: list[dict[str, Any]] = []
    async with client:
        for topic in await topic_admin.describe_topics(client, names):
            described.append(await _description(client, topic))
    if as_json:
        print_json(described)
        return 0
    for number, one in enumerate(described):
        if number:
            print()
        configs = " ".join(f"{name}={value}" for name, value in one["configs"].items())
        print(f"topic {one['name']}  id {one['topic_id']}  {counted(len(one['partitions']), 'partition')}")
        print(f"settings {configs or '(all default)'}")
        heads = ("partition", "leader", "epoch", "replicas", "in sync", "first offset", "next offset")
        _print_partitions(heads, one["partitions"])
    return 0


def _print_partitions(heads: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    """Print partitions, with their eligible leader replicas if any partition has some."""
    has_eligible = any(row["eligible_leader_replicas"] or row["last_known_elr"] for row in rows)
    shown = [row.values() if has_eligible else list(row.values())[:-2] for row in rows]
    print_table(
        (*heads, "elr", "last known elr") if has_eligible else heads,
        [
            tuple(",".join(map(str, cell)) or None if isinstance(cell, list) else cell for cell in row)
            for row in shown
        ],
    )


def _eligible_as_json(found: EligibleReplicas | None) -> dict[str, list[int] | None]:
    """Return the eligible leader replicas of a partition; null if the server does not return them."""
    return {
        "eligible_leader_replicas": None if found is None else list(found.eligible),
        "last_known_elr": None if found is None else list(found.last_known),
    }


async def _description(client: Client, topic: MetadataResponseTopic) -> dict[str, Any]:
    assert topic.name is not None
    led = [one.partition_index for one in topic.partitions if one.leader_id >= 0]
    partitions = [TopicPartition(topic.name, number) for number in led]
    # The offsets of a partition that just lost its leader stay unknown.
    lookup = for_lookup(client)
    first = (await topic_admin.find_offsets(lookup, dict.fromkeys(partitions, topic_admin.EARLIEST))).found
    last = (await topic_admin.find_offsets(lookup, dict.fromkeys(partitions, topic_admin.LATEST))).found
    configs = await topic_admin.describe_configs(client, topic_admin.config_of_topic(topic.name))
    eligible = await topic_admin.eligible_replicas(client, [topic.name])
    rows = []
    for one in sorted(topic.partitions, key=lambda one: one.partition_index):
        place = TopicPartition(topic.name, one.partition_index)
        rows.append(
            {
                "partition": one.partition_index,
                "leader": one.leader_id if one.leader_id >= 0 else None,
                "leader_epoch": one.leader_epoch,
                "replicas": list(one.replica_nodes),
                "in_sync_replicas": list(one.isr_nodes),
                "first_offset": first[place].offset if place in first else None,
                "next_offset": last[place].offset if place in last else None,
                **_eligible_as_json(eligible.get(place)),
            }
        )
    return {
        "name": topic.name,
        "topic_id": uuid_to_text(topic.topic_id),
        "internal": topic.is_internal,
        "configs": {
            one.name: one.value for one in configs if topic_admin.SOURCES.get(one.config_source) == "topic"
        },
        "partitions": rows,
    }


async def describe_unhealthy(
    client: Client,
    names: Sequence[str] | None,
    *,
    under_replicated: bool,
    unavailable: bool,
    as_json: bool,
) -> int:
    """Print the partitions with one of these problems, as the cluster's health counts them."""
    async with client:
        if names:
            await topic_admin.describe_topics(client, names)  # raises if one does not exist
        unhealthy = [
            one
            for one in sorted(await partition_states(client))
            if not names or one.partition.topic in names
            if (under_replicated and one.is_under_replicated) or (unavailable and one.leader < 0)
        ]
        eligible = await topic_admin.eligible_replicas(
            client, sorted({one.partition.topic for one in unhealthy})
        )
    rows = [
        {
            **one.partition._asdict(),
            "leader": one.leader if one.leader >= 0 else None,
            "replicas": list(one.replicas),
            "in_sync_replicas": list(one.isr),
            **_eligible_as_json(eligible.get(one.partition)),
        }
        for one in unhealthy
    ]
    if as_json:
        print_json(rows)
    elif rows:
        _print_partitions(("topic", "partition", "leader", "replicas", "in sync"), rows)
    else:
        print("no such partition")
    return 0


async def alter(client: Client, name: str, partitions: int, dry_run: bool, as_json: bool) -> int:
    async with client:
        await topic_admin.add_partitions(client, name, partitions, only_check=dry_run)
    answer(
        {"topic": name, "partitions": partitions, "changed": not dry_run},
        f"{name} {'would have' if dry_run else 'now has'} {counted(partitions, 'partition')}",
        as_json=as_json,
    )
    return 0


async def delete(client: Client, names: Sequence[str], if_exists: bool, as_json: bool) -> int:
    async with client:
        with Results(as_json=as_json) as results:
            for name in names:
                try:
                    await topic_admin.delete_topic(client, name)
                except KafkaError as error:
                    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and if_exists:
                        results.add({"topic": name, "deleted": False}, f"{name} does not exist")
                        continue
                    raise
                results.add({"topic": name, "deleted": True}, f"deleted {name}")
    return 0


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns under heads, without a frame, so that awk and cut can read them too."""
    texts = [
        tuple(heads),
        *(tuple("-" if cell is None else escape_controls(str(cell)) for cell in row) for row in rows),
    ]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 topic`, `2 topics`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
