"""`ottla topic reassign --json` and `--generate`: generates, executes, verifies and cancels plans.

The text output is that of kafka-reassign-partitions. Each returns the exit code.
"""

import asyncio
import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.answers import Results, print_json
from ottla.node.cli.failure import EXIT_FAILURE, EXIT_USAGE, CommandError
from ottla.node.cli.reassign_commands import POLL_S, assignment, check_moved, until_moved
from ottla.node.client import cluster_admin, throttles
from ottla.node.client.cluster_client import Client
from ottla.node.client.log_dir_moves import (
    LogDirMove,
    describe_log_dir_moves,
    sentence_of,
    start_log_dir_moves,
)
from ottla.node.client.reassignment_plan import (
    MAX_PLAN_BYTES,
    Assignment,
    Plan,
    Replica,
    parse_plan,
    parse_topics,
    plan_as_json,
    plan_as_text,
    propose,
)
from ottla.node.client.refusal import Refused


def read_plan(path: Path) -> Plan:
    """Return the plan in a file; CommandError if it is not valid."""
    try:
        return parse_plan(_content(path))
    except ValueError as error:
        raise CommandError(f"{path} is not a plan of reassignments: {error}.", EXIT_USAGE) from None


def read_topics(path: Path) -> list[str]:
    """Return the topics in a file of topics to move; CommandError if it is not valid."""
    try:
        return parse_topics(_content(path))
    except ValueError as error:
        raise CommandError(f"{path} is not a list of topics to move: {error}.", EXIT_USAGE) from None


def parse_brokers(text: str) -> list[int]:
    """Parse `ID,ID,...`; CommandError for anything else."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) <= 10 for word in words):
        raise CommandError(f"--broker-list {text!r} is not a list of broker ids; write ID,ID,...", EXIT_USAGE)
    if len(set(words)) < len(words):
        raise CommandError(f"--broker-list {text!r} names a broker twice.", EXIT_USAGE)
    return [int(word) for word in words]


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_PLAN_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.", EXIT_USAGE) from None


async def generate(
    client: Client, topics: Sequence[str], brokers: Sequence[int], *, ignores_racks: bool, as_json: bool
) -> int:
    """Print the current assignment of these topics, and a plan that spreads them over these brokers."""
    async with client:
        now = await assignment(client, topics)
        there = {one.broker_id: one for one in (await cluster_admin.describe_cluster(client)).brokers}
    missing = [str(one) for one in brokers if one not in there]
    if missing:
        raise CommandError(f"There is no broker {missing[0]}; `ottla broker list` shows all brokers.")
    racks = {one: None if ignores_racks else there[one].rack for one in brokers}
    if None in racks.values() and any(racks.values()):
        raise Refused("Not all of these brokers have a rack; --disable-rack-aware ignores racks.")
    proposed = propose(now, racks, random.Random().randrange(len(brokers)))
    if as_json:
        print_json({"current": plan_as_json(now), "proposed": plan_as_json(proposed)})
        return 0
    print(f"Current partition replica assignment\n{plan_as_text(now)}\n")
    print(f"Proposed partition reassignment configuration\n{plan_as_text(proposed)}")
    return 0


async def execute(
    client: Client,
    plan: Plan,
    *,
    rate: int | None,
    log_dirs_rate: int | None,
    waits: bool,
    as_json: bool,
) -> int:
    """Start the moves of a plan; with `waits`, wait for their end, then do as `verify`.

    `rate` limits the copies between brokers and `log_dirs_rate` those between the directories of a broker, in
    bytes per second for each broker.
    """
    replicas, log_dirs = plan
    topics = sorted({one.topic for one in replicas})
    is_throttled = rate is not None or log_dirs_rate is not None
    async with client:
        now = await assignment(client, topics)
        _check_there(now, replicas)
        before = {one: now[one] for one in replicas}
        with _warning_of_throttles(is_throttled):
            if log_dirs_rate is not None:
                limits = {throttles.LOG_DIRS_RATE: log_dirs_rate}
                await throttles.set_throttles(client.renewed(), rates=limits, broker_ids=None, topics=())
            # Brokers that get a replica create it in its directory if they know the directory before.
            started = await start_log_dir_moves(client.renewed(), log_dirs)
            if rate is not None:
                limits = {throttles.LEADER_RATE: rate, throttles.FOLLOWER_RATE: rate}
                await throttles.set_throttles(client.renewed(), rates=limits, broker_ids=None, topics=topics)
            if not as_json:
                print(f"Current partition replica assignment\n\n{plan_as_text(before)}\n")
                print("Save this to use as the --json file during rollback", flush=True)
                if rate is not None:
                    print(f"The inter-broker throttle limit was set to {rate} B/s", flush=True)
                if log_dirs_rate is not None:
                    print(f"The replica-alter-dir throttle limit was set to {log_dirs_rate} B/s", flush=True)
            await cluster_admin.move_partitions(client.renewed(), replicas)
            if not as_json:
                print(f"Successfully started partition reassignments for {_names(replicas)}", flush=True)
                if started:
                    print(f"Successfully started log directory moves for: {_names(started)}", flush=True)
            if waits:
                await until_moved(client, replicas)
                await check_moved(client, replicas)
                await _until_in_log_dirs(client, log_dirs, set(log_dirs) - started)
                return await _verify(client.renewed(), plan, keeps_throttles=False, as_json=as_json)
    if as_json:
        print_json({"previous": plan_as_json(before), "started": plan_as_json(replicas, log_dirs)})
    if is_throttled:
        print(
            "warning: the throttle stays until --verify finds that the reassignment has completed.",
            file=sys.stderr,
        )
    return 0


@contextmanager
def _warning_of_throttles(is_throttled: bool) -> Iterator[None]:
    """Name the command that removes throttles if the moves for which they were set fail."""
    try:
        yield
    except BaseException:
        if is_throttled:
            print(
                "warning: the throttle may be set; `ottla broker throttle` shows all throttles, and --clear "
                "removes them.",
                file=sys.stderr,
            )
        raise


async def _until_in_log_dirs(client: Client, wanted: Mapping[Replica, str], missing: set[Replica]) -> None:
    """Wait until all replicas are in their directories.

    Those in `missing` were not on their brokers before, and may have come to other directories: their moves
    are started here. REQUEST_TIMED_OUT if no move ends for the timeout.
    """
    since, left = time.monotonic(), len(wanted) + 1
    while True:
        missing -= await start_log_dir_moves(client.renewed(), {one: wanted[one] for one in missing})
        moves = await describe_log_dir_moves(client.renewed(), wanted)
        for problem in filter(None, (one.problem for one in moves)):
            raise problem
        unfinished = [one for one in moves if one.is_active or one.replica in missing]
        if not unfinished:
            return
        if len(unfinished) < left:
            since, left = time.monotonic(), len(unfinished)
        if time.monotonic() - since > client.timeout_s:
            first = unfinished[0]
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"replica {first.replica} is still moving to {first.wanted}; "
                "the move continues in the background",
            )
        await asyncio.sleep(POLL_S)


async def verify(client: Client, plan: Plan, *, keeps_throttles: bool, as_json: bool) -> int:
    """Print the state of a plan; return 1 if it is not complete.

    If no partition of the cluster and no replica of the plan is moving, all throttles of the cluster are
    removed, unless `keeps_throttles`.
    """
    async with client:
        return await _verify(client, plan, keeps_throttles=keeps_throttles, as_json=as_json)


async def _verify(client: Client, plan: Plan, *, keeps_throttles: bool, as_json: bool) -> int:
    replicas = plan.replicas
    moving = await cluster_admin.list_moves(client)
    now = await assignment(client, sorted({one.topic for one in replicas}))
    _check_there(now, replicas)
    moves = await describe_log_dir_moves(client, plan.log_dirs)
    if not as_json:
        print("Status of partition reassignment:")
    with Results(as_json=as_json) as results:
        for one, wanted in sorted(replicas.items()):
            row = {**one._asdict(), "replicas": list(now[one]), "wanted": list(wanted)}
            if one in moving:
                line = f"Reassignment of partition {one} is still in progress."
                results.add({**row, "state": "in progress"}, line)
            elif list(now[one]) == list(wanted):
                results.add({**row, "state": "completed"}, f"Reassignment of partition {one} is completed.")
            else:
                line = (
                    f"There is no active reassignment of partition {one}, but replica set is "
                    f"{_ids(now[one])} rather than {_ids(wanted)}."
                )
                results.add({**row, "state": "not moving"}, line)
        for move in moves:
            results.add(_row_of(move), sentence_of(move))
    may_move = any(one.is_active or one.problem is not None for one in moves)
    if not moving and not may_move and not keeps_throttles:
        cleared = await throttles.clear_throttles(client.renewed())
        if not as_json and cleared.brokers:
            ids = _ids([one.broker_id for one in cleared.brokers])
            print(f"Clearing broker-level throttles on brokers {ids}")
        if not as_json and cleared.topics:
            names = ",".join(one.topic for one in cleared.topics)
            print(f"Clearing topic-level throttles on topics {names}")
    is_done = all(one not in moving and list(now[one]) == list(wanted) for one, wanted in replicas.items())
    return 0 if is_done and all(one.is_completed for one in moves) else EXIT_FAILURE


def _row_of(move: LogDirMove) -> dict[str, object]:
    replica, wanted, current, _, problem = move
    state = "in progress" if move.is_active else "completed" if move.is_completed else "not moving"
    if problem is not None:
        state = "unknown"
    return {
        **replica.partition._asdict(),
        "broker": replica.broker_id,
        "log_dir": current,
        "wanted_log_dir": wanted,
        "state": state,
    }


async def cancel(client: Client, plan: Plan, *, as_json: bool) -> int:
    """Cancel the moves of a plan that are under way, and remove the throttles if no other partition moves.

    Moves between directories of a broker that does not answer go on once it is up; the exit code is 1 then.
    """
    async with client:
        moving = [one for one in sorted(await cluster_admin.list_moves(client)) if one in plan.replicas]
        # Before the directories, since a broker that is down may be the reason to cancel.
        await cluster_admin.move_partitions(client.renewed(), dict.fromkeys(moving))
        moves = await describe_log_dir_moves(client.renewed(), plan.log_dirs)
        active = {one.replica: one.current for one in moves if one.is_active and one.current is not None}
        await start_log_dir_moves(client.renewed(), active)
        if not set(await cluster_admin.list_moves(client.renewed())) - set(moving):
            await throttles.clear_throttles(client.renewed())
    unknown = [one for one in moves if one.problem is not None]
    for one in unknown:
        print(f"ottla: {sentence_of(one)}", file=sys.stderr)
    exit_code = EXIT_FAILURE if unknown else 0
    if as_json:
        rows: list[dict[str, object]] = [one._asdict() for one in moving]
        rows += [{**one.partition._asdict(), "broker": one.broker_id} for one in sorted(active)]
        print_json(rows)
        return exit_code
    if moving:
        print(f"Successfully cancelled partition reassignments for: {_names(moving)}")
    else:
        print("None of the specified partition reassignments are active.")
    if active:
        print(f"Successfully cancelled log directory moves for: {_names(active)}")
    elif plan.log_dirs:
        print("None of the specified log directory moves are active.")
    return exit_code


def _check_there(now: Assignment, plan: Mapping[TopicPartition, object]) -> None:
    missing = sorted(one for one in plan if one not in now)
    if missing:
        raise CommandError(f"There is no partition {missing[0]}; nothing was changed.")


def _names(ones: Iterable[TopicPartition | Replica]) -> str:
    return ",".join(map(str, sorted(ones)))


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
