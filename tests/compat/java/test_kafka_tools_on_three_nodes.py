"""Apache Kafka 4.3.1's own command-line tools at three nodes, each a process: operations on replicas."""

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from tests.compat.java.kafka_tools import KafkaTools, Ran
from tests.compat.java.test_kafka_tools import Shell
from tests.integration.cluster.conftest import Cluster, eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]
NODES = {0, 1, 2}
# On a loaded machine everything but a wrong answer may take its time.
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def cluster(tools: KafkaTools, three_nodes: Cluster) -> Cluster:
    """Give the three nodes; a test that stops one starts it again."""
    return three_nodes


@pytest.fixture
def shell(tools: KafkaTools, cluster: Cluster) -> Shell:
    return Shell(tools, cluster.bootstrap)


Create = Callable[..., str]


@pytest.fixture
def create(shell: Shell) -> Create:
    """Give a function: `create("0:1:2", name=value)` creates a topic whose partition 0 has these replicas."""

    def one(assignment: str, **configs: str) -> str:
        name = f"java-{uuid4().hex[:8]}"
        pairs = [f"{key.replace('_', '.')}={value}" for key, value in configs.items()]
        options = [option for pair in pairs for option in ("--config", pair)]
        shell.ok("kafka-topics", "--create", "--topic", name, "--replica-assignment", assignment, *options)
        eventually(lambda: set(in_sync(shell, name)) == replicas_of(assignment), "all are in sync", TIMEOUT_S)
        return name

    return one


def replicas_of(assignment: str) -> set[frozenset[int]]:
    return {frozenset(map(int, one.split(":"))) for one in assignment.split(",")}


def in_sync(shell: Shell, topic: str) -> list[frozenset[int]]:
    """Return the ISR of each partition, or nothing if the node does not know the topic yet."""
    text = shell.run("kafka-topics", "--describe", "--topic", topic).text
    return [frozenset(map(int, one.split(","))) for one in re.findall(r"Isr: ([\d,]+)", text)]


def leaders(shell: Shell, topic: str) -> list[str]:
    """Return the leader of each partition, or `none`."""
    return re.findall(r"Leader: (\S+)", shell.ok("kafka-topics", "--describe", "--topic", topic))


def send(shell: Shell, topic: str, count: int, *, size: int = 100, rate: int = -1) -> Ran:
    """Run kafka-producer-perf-test with acks=all.

    It sends records of `size` bytes, or the numbers from 0 if `size` is 0.
    """
    payload = ("--record-size", str(size)) if size else ("--payload-monotonic",)
    return shell.tools.run(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", str(count), *payload, "--throughput", str(rate)),
        *("--command-property", f"bootstrap.servers={shell.bootstrap}", "acks=all"),
    )


def offsets(shell: Shell, topic: str, time: str = "latest") -> list[int]:
    printed = shell.ok("kafka-get-offsets", "--topic", topic, "--time", time)
    return [int(line.rpartition(":")[2]) for line in printed.split()]


def test_kafka_topics_creates_grows_and_deletes_topics_of_three_replicas(shell: Shell) -> None:
    name = f"java-{uuid4().hex[:8]}"
    of_topic = ("--topic", name)
    shell.ok("kafka-topics", "--create", *of_topic, "--partitions", "3", "--replication-factor", "3")
    eventually(lambda: set(in_sync(shell, name)) == {frozenset(NODES)}, "all are in sync", TIMEOUT_S)

    described = shell.ok("kafka-topics", "--describe", *of_topic)
    too_many = shell.run("kafka-topics", "--create", "--topic", f"{name}-4", "--replication-factor", "4")
    shell.ok("kafka-topics", "--alter", *of_topic, "--partitions", "5")
    fewer = shell.run("kafka-topics", "--alter", *of_topic, "--partitions", "2")
    eventually(
        lambda: (
            "PartitionCount: 5\tReplicationFactor: 3" in shell.ok("kafka-topics", "--describe", *of_topic)
        ),
        "every node knows five partitions",
        TIMEOUT_S,
    )
    shell.ok("kafka-topics", "--delete", *of_topic)

    assert "PartitionCount: 3\tReplicationFactor: 3" in described
    assert sorted(re.findall(r"Leader: (\d)", described)) == ["0", "1", "2"], "each leads one"
    assert too_many.code == 1
    assert "Unable to replicate the partition 4 time(s)" in too_many.text
    assert fewer.code == 1 and "would not be an increase" in fewer.text, fewer.text
    eventually(lambda: name not in shell.ok("kafka-topics", "--list").split(), "it is deleted", TIMEOUT_S)


def test_kafka_topics_shows_partitions_that_lack_replicas(
    shell: Shell, cluster: Cluster, create: Create
) -> None:
    topic = create("0:1:2", min_insync_replicas="3")
    describe = ("kafka-topics", "--describe", "--topic", topic)
    whole = [
        shell.ok(*describe, f"--{option}")
        for option in ("under-replicated-partitions", "at-min-isr-partitions")
    ]

    cluster.kill(2)
    eventually(lambda: in_sync(shell, topic) == [frozenset({0, 1})], "node 2 is missed", TIMEOUT_S)
    for option in ("under-replicated-partitions", "under-min-isr-partitions"):
        # The tool may ask a node whose image is older.
        eventually(
            lambda option=option: f"Topic: {topic}\tPartition: 0" in shell.ok(*describe, f"--{option}"),
            f"the partition is shown by --{option}",
            TIMEOUT_S,
        )
    unavailable = shell.ok(*describe, "--unavailable-partitions")
    cluster.start(2)

    assert whole[0].strip() == "" and topic in whole[1]
    assert unavailable.strip() == ""
    eventually(lambda: in_sync(shell, topic) == [frozenset(NODES)], "node 2 is back", TIMEOUT_S)


def test_kafka_configs_changes_a_topic_a_broker_and_all_brokers(shell: Shell, create: Create) -> None:
    topic = create("2:0:1")
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    of_broker = ("--entity-type", "brokers", "--entity-name", "1")
    of_all = ("--entity-type", "brokers", "--entity-default")

    def alter(entity: tuple[str, ...], *change: str) -> None:
        printed = shell.ok("kafka-configs", "--alter", *entity, *change)
        assert re.search(r"^Completed updating (default )?config for ", printed, flags=re.M), printed

    def described(entity: tuple[str, ...], *options: str) -> str:
        return shell.ok("kafka-configs", "--describe", *entity, *options)

    def shown(entity: tuple[str, ...], word: str, *options: str) -> None:
        # Each node answers from its own image, and the tool may ask any of them.
        eventually(lambda: word in described(entity, *options), f"{entity} has {word}", TIMEOUT_S)

    alter(of_topic, "--add-config", "min.insync.replicas=2")
    alter(of_all, "--add-config", "log.cleaner.threads=2")
    alter(of_broker, "--add-config", "log.cleaner.threads=1")
    shown(
        of_topic, "min.insync.replicas=2 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:min.insync.replicas=2"
    )
    shown(of_all, "log.cleaner.threads=2")
    shown(
        of_broker,
        "log.cleaner.threads=1 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.threads=1,"
        " DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.threads=2, DEFAULT_CONFIG:log.cleaner.threads=1}",
    )
    alter(of_broker, "--delete-config", "log.cleaner.threads")
    shown(of_broker, "log.cleaner.threads=2 ", "--all")
    alter(of_all, "--delete-config", "log.cleaner.threads")
    shown(of_broker, "log.cleaner.threads=1 ", "--all")
    wrong = shell.run("kafka-configs", "--alter", *of_topic, "--add-config", "min.insync.replicas=none")
    assert (wrong.code, "InvalidConfigurationException" in wrong.text) == (1, True), wrong.text


def test_kafka_metadata_quorum_describes_three_voters(shell: Shell) -> None:
    status = shell.ok("kafka-metadata-quorum", "describe", "--status")
    replication = shell.ok("kafka-metadata-quorum", "describe", "--replication")

    fields = dict(re.findall(r"^(\w+): +(.*)$", status, flags=re.M))
    rows = [line.split() for line in replication.splitlines()[1:] if line.strip()]
    assert (
        int(fields["LeaderId"]) in NODES
        and int(fields["LeaderEpoch"]) > 0
        and int(fields["HighWatermark"]) > 0
    )
    assert sorted(one["id"] for one in json.loads(fields["CurrentVoters"])) == [0, 1, 2]
    assert json.loads(fields["CurrentObservers"]) == []
    assert 0 <= int(fields["MaxFollowerLag"]) < int(fields["HighWatermark"])
    assert {int(row[0]) for row in rows} == NODES
    assert sorted(row[-1] for row in rows) == ["Follower", "Follower", "Leader"]
    assert [row[0] for row in rows if row[-1] == "Leader"] == [fields["LeaderId"]]


def test_kafka_features_does_not_downgrade_metadata_version(shell: Shell) -> None:
    described = shell.ok("kafka-features", "describe")
    unsafe = shell.run("kafka-features", "downgrade", "--feature", "metadata.version=1")

    assert re.search(r"metadata\.version\s.*FinalizedVersionLevel: 4\.3-IV0", described), described
    assert unsafe.code == 1 and "Could not downgrade metadata.version" in unsafe.text, unsafe.text


def test_kafka_leader_election_elects_the_preferred_replica(
    shell: Shell, cluster: Cluster, create: Create
) -> None:
    topic = create("1:0:2,1:2:0")
    election = ("kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0")

    assert cluster.terminate(1) == 0
    eventually(lambda: "1" not in leaders(shell, topic), "others lead", TIMEOUT_S)
    cluster.start(1)
    eventually(lambda: set(in_sync(shell, topic)) == {frozenset(NODES)}, "all are in sync", TIMEOUT_S)
    elected = shell.ok(*election)
    again = shell.ok(*election)

    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in elected
    assert f"Valid replica already elected for partitions {topic}-0" in again
    eventually(lambda: leaders(shell, topic)[0] == "1", "1 leads", TIMEOUT_S)


def test_kafka_leader_election_elects_a_replica_that_is_not_in_sync(
    shell: Shell, cluster: Cluster, create: Create
) -> None:
    topic = create("0:1")
    election = ("kafka-leader-election", "--election-type", "unclean", "--topic", topic, "--partition", "0")
    cluster.kill(1)
    eventually(lambda: in_sync(shell, topic) == [frozenset({0})], "0 is alone", TIMEOUT_S)
    assert send(shell, topic, 10).code == 0
    cluster.kill(0)
    cluster.start(1)
    shell.bootstrap = f"{cluster.nodes[1].bootstrap},{cluster.nodes[2].bootstrap}"
    eventually(lambda: leaders(shell, topic) == ["none"], "no replica leads", TIMEOUT_S)
    lost = f"Topic: {topic}\tPartition: 0\tLeader: none"
    eventually(
        lambda: lost in shell.ok("kafka-topics", "--describe", "--unavailable-partitions"),
        "the partition is unavailable",
        TIMEOUT_S,
    )

    elected = shell.ok(*election)
    eventually(lambda: leaders(shell, topic) == ["1"], "1 leads", TIMEOUT_S)
    left = offsets(shell, topic)
    cluster.start(0)

    assert f"Successfully completed leader election (UNCLEAN) for partitions {topic}-0" in elected
    assert left == [0], "an unclean election loses the records that only 0 had"
    eventually(lambda: in_sync(shell, topic) == [frozenset({0, 1})], "0 follows", TIMEOUT_S)


def test_kafka_reassign_partitions_throttles_cancels_and_completes_a_plan(
    shell: Shell, create: Create, tmp_path: Path
) -> None:
    topic = create("0:1,1:0")
    assert send(shell, topic, 4_000, size=1_000).code == 0
    topics, plan, back = tmp_path / "topics.json", tmp_path / "plan.json", tmp_path / "back.json"
    topics.write_text(json.dumps({"topics": [{"topic": topic}], "version": 1}))
    run = ("kafka-reassign-partitions",)
    of_topic = ("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", topic)

    generated = shell.ok(
        *run, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2"
    )
    now, proposed = (line for line in generated.splitlines() if line.startswith("{"))
    moved = json.loads(proposed)["partitions"]
    assert sorted(tuple(one["replicas"]) for one in json.loads(now)["partitions"]) == [(0, 1), (1, 0)]
    assert all(sorted(one["replicas"]) == [1, 2] for one in moved)
    plan.write_text(proposed)
    back.write_text(now)
    of_plan = ("--reassignment-json-file", str(plan))

    slow = shell.ok(*run, "--execute", *of_plan, "--throttle", "50000")
    assert "Successfully started partition reassignments" in slow and "50000 B/s" in slow, slow
    eventually(lambda: "throttled.replicas" in shell.ok(*of_topic), "it is throttled", TIMEOUT_S)
    assert f"Reassignment of partition {topic}-0 is still in progress." in shell.ok(
        *run, "--verify", *of_plan
    )
    listed = shell.ok(*run, "--list")
    assert f"{topic}-0: replicas: " in listed and "adding: 2. removing: 0." in listed, listed
    twice = shell.run(*run, "--execute", *of_plan)
    assert (
        twice.code == 1 and "Cannot execute because there is an existing partition assignment" in twice.text
    )

    cancelled = shell.ok(*run, "--cancel", *of_plan)
    assert "Successfully cancelled partition reassignments" in cancelled
    assert "No partition reassignments found." in shell.ok(*run, "--list")
    eventually(
        lambda: set(in_sync(shell, topic)) == {frozenset({0, 1})}, "they are where they were", TIMEOUT_S
    )
    eventually(lambda: "throttled.replicas" not in shell.ok(*of_topic), "it is not throttled", TIMEOUT_S)

    shell.ok(*run, "--execute", *of_plan, "--throttle", "100000000")
    eventually(
        lambda: shell.ok(*run, "--verify", *of_plan).count(" is completed.") == 2,
        "they have moved",
        TIMEOUT_S,
    )
    cleared = shell.ok(*run, "--verify", *of_plan)
    assert f"Clearing topic-level throttles on topic {topic}" in cleared
    eventually(lambda: "throttled.replicas" not in shell.ok(*of_topic), "it is not throttled", TIMEOUT_S)
    eventually(lambda: set(in_sync(shell, topic)) == {frozenset({1, 2})}, "they are in sync", TIMEOUT_S)
    assert sum(offsets(shell, topic)) == 4_000


def test_kafka_console_consumer_commits_the_offsets_of_its_group(shell: Shell, create: Create) -> None:
    topic = create("0:1:2,1:2:0,2:0:1", min_insync_replicas="2")
    group = f"group-{topic}"
    sent = send(shell, topic, 3_000)

    read = shell.ok(
        "kafka-console-consumer",
        *("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "3000"),
        *("--timeout-ms", "60000"),
    )
    described = shell.ok("kafka-consumer-groups", "--describe", "--group", group)

    assert (sent.code, "3000 records sent" in sent.text) == (0, True), sent.text
    assert "Processed a total of 3000 messages" in read
    rows = [line.split() for line in described.splitlines() if re.search(rf"\s{topic}\s+\d", line)]
    assert sum(int(row[3]) for row in rows) == 3_000 and {row[5] for row in rows} == {"0"}, described
    offsets_topic = shell.ok("kafka-topics", "--describe", "--topic", "__consumer_offsets")
    assert "ReplicationFactor: 3" in offsets_topic


def test_kafka_log_dirs_shows_all_replicas(shell: Shell, create: Create) -> None:
    topic = create("0:1,2:1")
    assert send(shell, topic, 500).code == 0

    printed = shell.ok("kafka-log-dirs", "--describe", "--topic-list", topic)
    only = shell.ok("kafka-log-dirs", "--describe", "--broker-list", "0", "--topic-list", topic)

    def held(text: str) -> dict[int, set[str]]:
        document = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
        return {
            broker["broker"]: {
                one["partition"] for log_dir in broker["logDirs"] for one in log_dir["partitions"]
            }
            for broker in document["brokers"]
        }

    first, second = f"{topic}-0", f"{topic}-1"
    assert held(printed) == {0: {first}, 1: {first, second}, 2: {second}}
    assert held(only) == {0: {first}}


def test_kafka_broker_api_versions_and_kafka_cluster_show_every_node(shell: Shell) -> None:
    versions = shell.ok("kafka-broker-api-versions")
    at = ("--bootstrap-server", shell.bootstrap)
    cluster_id = shell.tools.run("kafka-cluster", "cluster-id", *at)
    endpoints = shell.tools.run("kafka-cluster", "list-endpoints", *at)

    ids = {
        int(one)
        for one in re.findall(
            r"^127\.0\.0\.1:\d+ \(id: (\d) rack: null isFenced: false\)", versions, flags=re.M
        )
    }
    assert ids == NODES, versions[:300]
    assert versions.count("Produce(0): 0 to 13 [usable: 13]") == 3
    assert cluster_id.code == 0 and re.search(r"^Cluster ID: \S{22}$", cluster_id.text, flags=re.M)
    assert {int(one) for one in re.findall(r"^(\d)\s+127\.0\.0\.1", endpoints.text, flags=re.M)} == NODES


def test_kafka_delete_records_deletes_on_every_replica(
    shell: Shell, cluster: Cluster, create: Create, tmp_path: Path
) -> None:
    topic = create("0:1:2,1:2:0")
    assert send(shell, topic, 600).code == 0
    latest = offsets(shell, topic)
    wanted = tmp_path / "offsets.json"
    cut = [latest[0] // 2, -1]
    partitions = [{"topic": topic, "partition": index, "offset": cut[index]} for index in (0, 1)]
    wanted.write_text(json.dumps({"partitions": partitions, "version": 1}))

    printed = shell.ok("kafka-delete-records", "--offset-json-file", str(wanted))

    left = [latest[0] // 2, latest[1]]
    assert sum(latest) == 600
    assert [f"low_watermark: {one}" in printed for one in left] == [True, True], printed
    assert offsets(shell, topic, "earliest") == left
    assert cluster.terminate(0) == 0
    eventually(lambda: "0" not in leaders(shell, topic), "another leads", TIMEOUT_S)
    assert offsets(shell, topic, "earliest") == left, "followers have deleted them too"
    cluster.start(0)


def test_a_java_producer_and_consumer_survive_the_death_of_a_leader(
    shell: Shell, cluster: Cluster, create: Create
) -> None:
    topic = create("0:1:2", min_insync_replicas="2")
    sent: list[Ran] = []
    producing = threading.Thread(target=lambda: sent.append(send(shell, topic, 8_000, size=0, rate=1_000)))

    producing.start()
    eventually(lambda: log_bytes(cluster, topic) > 1_000, "records arrive", TIMEOUT_S)
    cluster.kill(0)
    producing.join(TIMEOUT_S)
    read = shell.ok(
        "kafka-console-consumer",
        *("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "8000"),
        *("--timeout-ms", "60000"),
    )
    cluster.start(0)

    [ran] = sent
    assert (ran.code, "8000 records sent" in ran.text, "Exception" in ran.text) == (0, True, False), ran.text
    values = [int(line) for line in read.splitlines() if line.isdigit()]
    assert values == list(range(8_000)), "in order, each once"
    assert offsets(shell, topic) == [8_000]


def log_bytes(cluster: Cluster, topic: str) -> int:
    """Return the size of the log of node 0 in bytes, from its files, since the JVM of the tools is busy."""
    folder = cluster.homes[0].directory / "data" / f"{topic}-0"
    return sum(path.stat().st_size for path in folder.glob("*.log"))


def test_kafka_topics_shows_eligible_leader_replicas(shell: Shell, cluster: Cluster, create: Create) -> None:
    """KIP-966, with its feature as kafka-features shows it."""
    topic = create("0:1", min_insync_replicas="2")
    features = shell.ok("kafka-features", "describe")
    cluster.kill(1)
    shell.bootstrap = cluster.nodes[0].bootstrap

    def line() -> str:
        text = shell.run("kafka-topics", "--describe", "--topic", topic).text
        return next((one for one in text.splitlines() if "Partition: 0" in one), "")

    eventually(lambda: "Isr: 0\tElr: 1\tLastKnownElr: " in line(), "the killed replica may lead", TIMEOUT_S)
    cluster.start(1)
    eventually(
        lambda: re.search(r"Isr: [01],[01]\tElr: \t", line()) is not None, "both are in sync", TIMEOUT_S
    )

    assert re.search(
        r"eligible\.leader\.replicas\.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1"
        r"\s+FinalizedVersionLevel: 1",
        features,
    )
