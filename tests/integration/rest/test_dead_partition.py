"""One partition has no leader: every route keeps its time limit, returns what it has, and none answers 500.

All routes of the table are called, so a new one is included automatically.
"""

import json
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pytest
import typer

from ottla.node.cli.app import app, main
from ottla.node.client import record_sender
from ottla.node.embedded import Cluster
from ottla.node.rest_api import read_records
from ottla.node.rest_api.all_routes import ALL_ROUTES
from ottla.node.rest_api.route import TIMEOUT_MS, Route
from tests.compat.command_line import start
from tests.integration.rest.conftest import TIMEOUT_S, Api, Reply, eventually, name_of

pytestmark = [pytest.mark.slow]

TOPIC, GROUP = "half-dead", "half-dead-group"
READ_BY_A_GROUP: Final = "half-dead-too"
DEAD_NODE: Final = 2
DEAD, LED = 0, 1  # partitions
LIMIT_S: Final = 3.0  # per request; four requests at a time share the machine with other tests
MARGIN_S: Final = 8.0  # for a busy machine; a retry within a retry takes longer than this
PATH_PARAMETERS: Final = {
    "user_name": "ann",
    "topic_name": TOPIC,
    "partition_id": DEAD,
    "broker_id": DEAD_NODE,
    "consumer_group_id": GROUP,
    "group_id": GROUP,
    "consumer_id": "nobody",
    "transactional_id": "no-such-id",
    "name": "retention.ms",
    "offset": 0,
}
ONE: Final = {"topic": TOPIC, "partition": DEAD}
RECORD: Final = {"partition_id": DEAD, "value": {"type": "STRING", "data": "x"}}
ACL: Final = {
    "resource_type": "TOPIC",
    "resource_name": TOPIC,
    "pattern_type": "LITERAL",
    "principal": "User:a",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
BODIES: Final[Mapping[str, Any]] = {
    "createKafkaTopic": {"topic_name": TOPIC},
    "updatePartitionCountKafkaTopic": {"partitions_count": 3},
    "updateKafkaTopicConfig": {"value": "1000000"},
    "updateKafkaTopicConfigBatch": {"data": [{"name": "retention.ms", "value": "1000000"}]},
    "updateKafkaConfigsOfTopics": {
        "data": [{"topic_name": TOPIC, "configs": [{"name": "retention.ms", "value": "1000000"}]}]
    },
    "updateKafkaBrokerConfig": {"value": "1"},
    "updateKafkaBrokerConfigBatch": {"data": [{"name": "log.cleaner.threads", "value": "1"}]},
    "updateKafkaGroupConfig": {"value": "1"},
    "updateKafkaGroupConfigBatch": {"data": [{"name": "share.auto.offset.reset", "value": "earliest"}]},
    "updateKafkaClusterConfig": {"value": "1"},
    "updateKafkaClusterConfigs": {"data": [{"name": "log.cleaner.threads", "value": "1"}]},
    "createKafkaAcls": ACL,
    "batchCreateKafkaAcls": {"data": [ACL]},
    "setPassword": {"password": "secret"},
    "alterQuotas": {"entity": {"user": "ann"}, "quotas": {"producer_byte_rate": 1_000_000}},
    "produceRecord": RECORD,
    "produceRecordsBatch": {
        "entries": [{"id": "dead", **RECORD}, {"id": "led", **RECORD, "partition_id": LED}]
    },
    "produceRecordsV2": {"records": [{"value": 1, "partition": LED}]},
    "produceRecordsToPartitionV2": {"records": [{"value": 1}]},
    "subscribeV2": {"topics": [TOPIC]},
    "assignV2": {"partitions": [ONE]},
    "seekV2": {"offsets": [{**ONE, "offset": 0}]},
    "seekToBeginningV2": {"partitions": [ONE]},
    "seekToEndV2": {"partitions": [ONE]},
    "getCommittedV2": {"partitions": [ONE]},
    "trimTopic": {"before_offset": 0},
    "electLeaders": {"type": "preferred", "partitions": [ONE]},
    "transferLeader": {**ONE, "leader": 0},
    "beginReassignments": {"reassignments": [{**ONE, "replicas": [0]}]},
    "setThrottles": {"leader_bytes_per_second": 1_000_000},
    "abortTransaction": {**ONE, "start_offset": 0},
    "resetGroup": {"to": "earliest", "topics": [{"topic": TOPIC}]},
    "deliverAgain": {"topic": TOPIC, "letters": [{"partition": DEAD, "offset": 0}]},
}
# The status of routes with a stricter condition than "not 500".
STATUS: Final = {
    "readTopicRecords": 200,
    "readPartitionRecords": 503,
    "listKafkaPartitionOffsets": 503,
    "listProducers": 503,
    "abortTransaction": 503,
    "resetGroup": 409,
    "produceRecord": 200,
    "produceRecordsBatch": 207,
    "getKafkaConsumerGroupLagSummary": 200,
    "listKafkaConsumerLags": 200,
    "listHangingTransactions": 200,
    "listTopicPartitions": 200,
    "getHealth": 200,
    "getGroupView": 200,
    "listGroups": 200,
    "getLogDirs": 200,
}


# The arguments of each command that has --timeout, its exit code, and a part of its output that matters.
COMMANDS: Final[Mapping[str, tuple[Sequence[str], int, str]]] = {
    "produce": ((TOPIC, "-p", str(DEAD)), 1, f"{TOPIC}-{DEAD} has no leader"),
    "consume": ((TOPIC, "--until-end"), 1, f"{TOPIC}-{DEAD} has no leader"),
    "quorum status": ((), 0, ""),
    "quorum remove": (("7",), 1, ""),
    "cluster balance": ((), 0, ""),
    "broker list": ((), 0, ""),
    "cluster health": ((), 1, "without a leader"),
    "cluster info": ((), 0, "fenced"),
    "broker config": (("0",), 0, ""),
    "broker log-dirs": ((), 1, f"broker {DEAD_NODE} are missing"),
    "broker drain": (("0",), 1, ""),
    "broker undrain": (("0",), 0, ""),
    "broker throttle": ((), 0, "nothing is throttled"),
    "broker decommission": ((str(DEAD_NODE),), 1, ""),
    "topic create": (("new-topic", "-r", "1"), 0, ""),
    "topic list": ((), 0, TOPIC),
    "topic describe": ((TOPIC,), 0, TOPIC),
    "topic trim": ((TOPIC, "--before-offset", "0"), 1, f"{TOPIC}-{DEAD} has no leader"),
    "topic alter": ((TOPIC, "-p", "3", "--dry-run"), 0, ""),
    "topic reassign": ((TOPIC,), 0, ""),
    "topic elect": ((TOPIC,), 1, f"{TOPIC}-{DEAD} got no new leader"),
    "topic config": ((TOPIC,), 0, ""),
    "group list": ((), 0, GROUP),
    "group describe": ((GROUP,), 0, TOPIC),
    "group members": ((GROUP,), 0, ""),
    "group lag": ((GROUP,), 0, TOPIC),
    "group reset": ((GROUP, "--to-earliest", "--topic", TOPIC), 1, f"{TOPIC}-{DEAD} has no leader"),
    "group config": ((GROUP,), 0, ""),
    "group delete": (("no-such-group",), 1, ""),
    "group delete-offsets": (("no-such-group", "--topic", TOPIC), 1, ""),
    "txn list": ((), 0, ""),
    "txn describe": (("no-such-id",), 1, ""),
    "txn producers": ((TOPIC,), 1, f"{TOPIC}-{DEAD} has no leader"),
    "txn abort": (("no-such-id",), 1, ""),
    "txn find-hanging": (("--all",), 1, f"{TOPIC}-{DEAD}"),
    "client-metrics list": ((), 0, ""),
    "client-metrics config": (("no-such-subscription",), 0, ""),
    "client-metrics delete": (("no-such-subscription",), 1, ""),
    "user list": ((), 0, ""),
    "user create": (("anna", "--generate"), 0, "password"),
    "user password": (("anna", "--generate"), 0, "password"),
    "user delete": (("anna",), 0, ""),
    "acl list": ((), 1, "authorizer.class.name"),
    "acl create": (("--allow", "User:a", "--producer", "--topic", TOPIC), 1, "authorizer.class.name"),
    "acl delete": (("--principal", "User:a", "--yes"), 1, "authorizer.class.name"),
    "acl check": (("--principal", "User:a", "--topic", TOPIC), 1, "authorizer.class.name"),
    "quota list": ((), 0, ""),
    "quota set": (("producer_byte_rate=1048576", "--user", "anna"), 0, ""),
    "quota delete": (("--user", "anna"), 0, ""),
    "perf produce": ((TOPIC, "-n", "10"), 0, "10 records sent"),
    "perf consume": ((TOPIC,), 1, f"{TOPIC}-{DEAD} has no leader"),
    "perf latency": ((TOPIC, "-n", "2"), 0, "Percentiles: 50th"),
    "topic copy": ((TOPIC, "new-topic"), 1, f"{TOPIC}-{DEAD} has no leader"),
    "topic delete": (("new-topic",), 0, ""),
}
# These concern a process or, like the doctor and `ottla rest`, have a time limit for each answer.
NOT_WALKED: Final = {"hand-over", "quorum add", "doctor", "rest"}


class Walked(NamedTuple):
    """The answer of a route, and the seconds it took."""

    route: Route
    reply: Reply
    took_s: float


@contextmanager
def damaged_cluster() -> Iterator[Cluster]:
    """Start a cluster that has lost a node, and with it the only replica of a partition."""
    with Cluster(nodes=3, rest=True) as cluster:
        api = Api(cluster.rest_urls[0], cluster.cluster_id)
        placed = [
            {"partition_id": DEAD, "broker_ids": [DEAD_NODE]},
            {"partition_id": LED, "broker_ids": [0]},
        ]
        for name in (TOPIC, READ_BY_A_GROUP):
            api.post(f"{api.v3}/topics", {"topic_name": name, "replicas_assignments": placed}, 201)
            for number in (DEAD, LED):
                reply = api.post(f"{api.v3}/topics/{name}/records", {**RECORD, "partition_id": number})
                assert reply["error_code"] == 200
        api.post(f"/v1/groups/{GROUP}/reset", {"to": "earliest", "topics": [{"topic": TOPIC}]})
        cluster.kill(DEAD_NODE)
        eventually(lambda: cluster.leader_of(TOPIC, DEAD) == -1, "the partition has no leader")
        yield cluster


@pytest.fixture(scope="module")
def damaged() -> Iterator[Cluster]:
    with damaged_cluster() as cluster:
        yield cluster


@pytest.fixture
def half_dead(damaged: Cluster) -> Api:
    """Return the API of a node that is still up."""
    return Api(damaged.rest_urls[0], damaged.cluster_id)


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten only the time limit of records in requests without a limit."""
    monkeypatch.setattr(record_sender, "DELIVERY_TIMEOUT_S", LIMIT_S)


def walk(api: Api, route: Route) -> Walked:
    path = route.path
    for name, value in {**PATH_PARAMETERS, "cluster_id": api.cluster_id}.items():
        path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
    if any(one.name == TIMEOUT_MS for one in route.parameters):
        path += f"?{TIMEOUT_MS}={LIMIT_S * 1000:.0f}"
    begun = time.monotonic()
    reply = api.ask(route.method, path, BODIES.get(route.operation_id))
    return Walked(route, reply, time.monotonic() - begun)


def test_readable_records_are_returned_and_the_other_partition_is_named(
    half_dead: Api, short_limits: None
) -> None:
    page = half_dead.get(f"{half_dead.v3}/topics/{TOPIC}/records?timeout_ms=3000")

    assert [one["partition_id"] for one in page["data"]] == [LED]
    [unavailable] = page["unavailable"]
    assert unavailable["partition_id"] == DEAD and f"{TOPIC}-{DEAD}" in unavailable["message"]
    assert not page["is_end"]
    assert dict(one.split(":") for one in page["cursor"].split(",")).keys() == {str(DEAD), str(LED)}


def test_a_tail_returns_readable_records_and_names_the_other_partition(
    half_dead: Api, short_limits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_records, "UNAVAILABLE_S", 0.0)
    place = f"{half_dead.url}{half_dead.v3}/topics/{TOPIC}/records?offset=earliest"
    request = urllib.request.Request(place, headers={"Accept": "text/event-stream"})
    events: dict[str, Any] = {}

    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as tail:
        while events.keys() < {"record", "unavailable"}:
            line = tail.readline().decode()
            if line.startswith("event: "):
                kind = line.removeprefix("event: ").strip()
            elif line.startswith("data: "):
                events.setdefault(kind, json.loads(line.removeprefix("data: ")))

    assert events["record"]["partition_id"] == LED
    assert [one["partition_id"] for one in events["unavailable"]] == [DEAD]


def test_a_group_reads_the_other_partitions_and_continues_the_dead_one_once_it_has_a_leader(
    damaged: Cluster,
) -> None:
    """The node is restarted, and killed again at the end for the other tests."""
    words = ("consume", READ_BY_A_GROUP, "-g", name_of("waits"), "--partitions", "-n", "2")
    member = start(damaged.bootstrap, *words)
    assert member.stdout is not None and member.stderr is not None
    try:
        warned = member.stderr.readline()
        assert f"{READ_BY_A_GROUP}-{DEAD} cannot be read now: " in warned
        assert member.stdout.readline().startswith(str(LED))

        damaged.restart(DEAD_NODE)

        assert member.stderr.readline() == f"{READ_BY_A_GROUP}-{DEAD} can be read again\n"
        rest, _ = member.communicate(timeout=TIMEOUT_S)
        assert rest.startswith(str(DEAD)) and member.returncode == 0
    finally:
        member.kill()
        damaged.kill(DEAD_NODE)
        eventually(lambda: damaged.leader_of(TOPIC, DEAD) == -1, "the partition has no leader")


def commands_with_a_timeout(command: Any, name: str = "") -> Iterator[str]:
    """Yield the names of all commands that have --timeout."""
    if hasattr(command, "commands"):
        for word, one in command.commands.items():
            yield from commands_with_a_timeout(one, f"{name} {word}".strip())
    elif any("--timeout" in one.opts for one in command.params):
        yield name


def test_every_command_keeps_its_timeout(
    damaged: Cluster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    there = set(commands_with_a_timeout(typer.main.get_command(app)))
    assert there == COMMANDS.keys() | NOT_WALKED, "give a new command its arguments here"
    given = tmp_path / "lines"
    given.write_text("x\n")
    wrong: dict[str, Any] = {}

    for name, (arguments, code, words) in COMMANDS.items():
        command = [*name.split(), *arguments, "--timeout", "1", "-b", damaged.bootstrap]
        monkeypatch.setattr(sys, "argv", ["ottla", *command])
        begun = time.monotonic()
        with given.open() as lines, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", lines)
            ended = main()
        took_s = time.monotonic() - begun
        output = "".join(capfd.readouterr())
        if ended != code or words not in output or took_s > 1 + MARGIN_S:
            wrong[name] = ended, round(took_s, 1), output

    assert not wrong


def test_no_route_answers_500_or_exceeds_its_time_limit(short_limits: None) -> None:
    """The routes change and delete what they name, so the cluster is used by this test alone."""
    routes = [one for one in ALL_ROUTES if one.is_documented]
    gets = [one for one in routes if one.method == "GET"]
    changing = [one for one in routes if one.method == "POST"]
    # Routes that delete what other routes need come last.
    ending = [one for one in routes if one.method not in ("GET", "POST")]
    ending.sort(key=lambda one: one.operation_id == "deleteKafkaTopic")
    unwritten = [
        one.operation_id for one in routes if one.body_is_required and one.operation_id not in BODIES
    ]
    assert not unwritten, f"give {unwritten} a body here"

    changing.sort(
        key=lambda one: one.operation_id in ("beginReassignments", "updatePartitionCountKafkaTopic")
    )
    with damaged_cluster() as cluster, ThreadPoolExecutor(4) as threads:
        api = Api(cluster.rest_urls[0], cluster.cluster_id)
        walked = list(threads.map(lambda one: walk(api, one), gets))
        walked += [walk(api, one) for one in (*changing, *ending)]

    by_operation = {one.route.operation_id: one for one in walked}
    invalid = {
        name: one.reply.content for name, one in by_operation.items() if b"Invalid body" in one.reply.content
    }
    assert not invalid, "a body that no handler sees tests nothing"
    failed = {name: one.reply for name, one in by_operation.items() if one.reply.status == 500}
    assert not failed
    late = {name: one.took_s for name, one in by_operation.items() if one.took_s > LIMIT_S + MARGIN_S}
    assert not late
    wrong = {
        name: (by_operation[name].reply.status, by_operation[name].reply.content)
        for name, status in STATUS.items()
        if by_operation[name].reply.status != status
    }
    assert not wrong
    for one in walked:
        if one.reply.status == 503:
            assert int(one.reply.headers["Retry-After"]) >= 1
            assert json.loads(one.reply.content)["message"]
