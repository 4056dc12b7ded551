"""`ottla broker log-dirs`, `drain`, `undrain` and `throttle`. Each returns the exit code."""

import sys
from collections.abc import Sequence
from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.answers import answer, print_json
from ottla.node.cli.failure import EXIT_FAILURE, explain, print_broker_problems
from ottla.node.cli.topic_commands import counted, print_table
from ottla.node.client import leader_moves, throttles
from ottla.node.client.cluster_client import Client
from ottla.node.client.leader_moves import LeaderMoves
from ottla.node.client.log_dirs import describe_log_dirs

MAX_NAMED: Final = 5  # partitions that a message names; --output json has all

# ---- log directories -----------------------------------------------------------------------------


async def log_dirs(
    client: Client, broker_ids: Sequence[int] | None, *, with_replicas: bool, as_json: bool
) -> int:
    """Print the directories of brokers; 1 if a broker did not answer or a directory has an error."""
    async with client:
        brokers = await describe_log_dirs(client, broker_ids=broker_ids or None)
    found = [(one.broker_id, each) for one in brokers for each in one.log_dirs]
    rows = [
        {
            "broker": broker_id,
            "log_dir": one.path,
            "error": None if one.error is None else explain(one.error),
            "total_bytes": one.total_bytes,
            "usable_bytes": one.usable_bytes,
            "replicas": len(one.replicas),
            "replicas_bytes": sum(each.size_bytes for each in one.replicas),
        }
        for broker_id, one in found
    ]
    placed = [
        {
            "broker": broker_id,
            "log_dir": one.path,
            **each.partition._asdict(),
            "size_bytes": each.size_bytes,
            "offset_lag": each.offset_lag,
            "is_future": each.is_future,
        }
        for broker_id, one in found
        for each in one.replicas
    ]
    shown = placed if with_replicas else rows
    if as_json:
        print_json(shown)
    elif shown:
        heads = tuple(name.replace("_", " ") for name in shown[0])
        print_table(heads, [tuple(row.values()) for row in shown])
    code = print_broker_problems(
        {one.broker_id: one.error for one in brokers if one.error}, "log directories"
    )
    return code or (EXIT_FAILURE if any(one.error for _, one in found) else 0)


# ---- leadership ----------------------------------------------------------------------------------


async def drain(client: Client, broker_id: int, as_json: bool) -> int:
    """Move the leaders of a broker's partitions to others; 1 if it still leads some."""
    async with client:
        moves = await leader_moves.drain_leaders(client, broker_id)
    return _report_moves(moves, f"moved away from broker {broker_id}", as_json)


async def undrain(client: Client, broker_id: int, as_json: bool) -> int:
    """Make a broker the leader of its share again; 1 if it did not get all of it."""
    async with client:
        moves = await leader_moves.return_leaders(client, broker_id)
    has_share = not moves.orders and not moves.kept
    done = f"moved back to broker {broker_id}{', which leads its share' if has_share else ''}"
    return _report_moves(moves, done, as_json)


def _report_moves(moves: LeaderMoves, done: str, as_json: bool) -> int:
    refused = {one.partition: explain(one.error) for one in moves.elections if one.error is not None}
    refused |= {one.partition: one.reason for one in moves.kept}
    led = [one.partition for one in moves.orders if one.partition not in refused]
    answer(
        {
            "moved": [one._asdict() for one in led],
            "kept": [{**one._asdict(), "reason": reason} for one, reason in sorted(refused.items())],
        },
        f"{counted(len(led), 'leader')} {done}",
        as_json=as_json,
    )
    if not as_json:
        by_reason: dict[str, list[TopicPartition]] = {}
        for partition, reason in sorted(refused.items()):
            by_reason.setdefault(reason, []).append(partition)
        for reason, kept in by_reason.items():
            more = f" and {len(kept) - MAX_NAMED} more" if len(kept) > MAX_NAMED else ""
            words = f"{', '.join(map(str, kept[:MAX_NAMED]))}{more}: {reason}"
            print(f"ottla: {counted(len(kept), 'partition')} not moved: {words}", file=sys.stderr)
    return EXIT_FAILURE if refused else 0


# ---- throttles -----------------------------------------------------------------------------------


async def show_throttles(client: Client, as_json: bool) -> int:
    """Print the limits of brokers, and the topics to which they apply."""
    async with client:
        found = await throttles.get_throttles(client)
    rows = [
        {"broker": one.broker_id, **{name: one.rates.get(name) for name in throttles.RATES}}
        for one in found.brokers
    ]
    topics = [
        {
            "topic": one.topic,
            "leader_replicas": list(one.leader_replicas),
            "follower_replicas": list(one.follower_replicas),
        }
        for one in found.topics
    ]
    if as_json:
        print_json({"brokers": rows, "topics": topics})
    elif not rows and not topics:
        print("nothing is throttled")
    else:
        print_table(("broker", *throttles.RATES), [tuple(row.values()) for row in rows])
        for topic in topics:
            listed = [",".join(topic[name]) or "-" for name in ("leader_replicas", "follower_replicas")]
            print(f"topic {topic['topic']}  leaders {listed[0]}  followers {listed[1]}")
    return print_broker_problems(found.problems, "limits")


async def throttle(
    client: Client, broker_ids: Sequence[int] | None, rate: int, topics: Sequence[str], as_json: bool
) -> int:
    """Limit the rate at which brokers send to followers and fetch as followers."""
    rates = {throttles.LEADER_RATE: rate, throttles.FOLLOWER_RATE: rate}
    async with client:
        await throttles.set_throttles(client, rates=rates, broker_ids=broker_ids or None, topics=topics)
    targets = f"broker {', '.join(map(str, sorted(broker_ids)))}" if broker_ids else "all brokers"
    answer(
        {"brokers": broker_ids or None, "bytes_per_second": rate, "topics": list(topics)},
        f"limited {targets} to {rate} bytes per second",
        as_json=as_json,
    )
    return 0


async def clear_throttles(client: Client, as_json: bool) -> int:
    """Remove all limits."""
    async with client:
        found = await throttles.clear_throttles(client)
    document = {
        "brokers": [one.broker_id for one in found.brokers],
        "topics": [one.topic for one in found.topics],
    }
    answer(
        document,
        f"removed the limits of {counted(len(found.brokers), 'broker')} and "
        f"{counted(len(found.topics), 'topic')}",
        as_json=as_json,
    )
    return 0
