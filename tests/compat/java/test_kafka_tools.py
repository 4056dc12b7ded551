"""Apache Kafka 4.3.1's own command-line tools at a node."""

import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.compat.java.kafka_tools import KafkaTools, Ran
from tests.compat.wire_client import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]


class Shell:
    """The tools with the server's address filled in."""

    def __init__(self, tools: KafkaTools, bootstrap: str) -> None:
        self.tools, self.bootstrap = tools, bootstrap

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Ran:
        return self.tools.run(tool, "--bootstrap-server", self.bootstrap, *arguments, stdin=stdin)

    def ok(self, tool: str, *arguments: str, stdin: str = "") -> str:
        ran = self.run(tool, *arguments, stdin=stdin)
        assert ran.code == 0, f"{tool} {arguments}: {ran.text}"
        assert "Exception" not in ran.text, ran.text
        return ran.text


@pytest.fixture
def shell(tools: KafkaTools, bootstrap: str) -> Shell:
    return Shell(tools, bootstrap)


@pytest.fixture
def topic(shell: Shell) -> str:
    name = f"java-{uuid4().hex[:8]}"
    shell.ok("kafka-topics", "--create", "--topic", name, "--partitions", "2")
    return name


def fill(shell: Shell, topic: str, count: int = 6) -> None:
    lines = "".join(f"key-{number}\tvalue-{number}\n" for number in range(count))
    shell.ok("kafka-console-producer", "--topic", topic, "--reader-property", "parse.key=true", stdin=lines)


def consume(shell: Shell, topic: str, count: int, *arguments: str) -> list[str]:
    printed = shell.ok(
        "kafka-console-consumer",
        *("--topic", topic, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "15000"),
        *("--formatter-property", "print.key=true", *arguments),
    )
    return sorted(line for line in printed.splitlines() if line.startswith("key-"))


def formatted(shell: Shell, formatter: str, group: str) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Return keys and values of a group's records, as a formatter of the console consumer prints them."""
    printed = shell.run(
        "kafka-console-consumer",
        *("--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "3000"),
        *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
    )
    # They are printed without a separator.
    starts = [match.start() for match in re.finditer(r'\{"key":\{"type":', printed.text)]
    records = [json.JSONDecoder().raw_decode(printed.text, start)[0] for start in starts]
    rows = [(one["key"]["data"], one["value"] and one["value"]["data"]) for one in records]
    return [(key, value) for key, value in rows if key["group"] == group]


def last_values(rows: list[tuple[dict[str, Any], dict[str, Any] | None]]) -> list[dict[str, Any]]:
    """Return the last value of each key, without tombstones."""
    newest = {json.dumps(key): value for key, value in rows}
    return [value for value in newest.values() if value is not None]


def test_kafka_topics_lists_describes_alters_and_deletes(shell: Shell, topic: str) -> None:
    described = shell.ok("kafka-topics", "--describe", "--topic", topic)
    shell.ok("kafka-topics", "--alter", "--topic", topic, "--partitions", "3")
    again = shell.run("kafka-topics", "--create", "--topic", topic)

    assert "PartitionCount: 2" in described
    assert "ReplicationFactor: 1" in described
    assert topic in shell.ok("kafka-topics", "--list").split()
    assert (again.code, "already exists" in again.text) == (1, True)
    shell.ok("kafka-topics", "--delete", "--topic", topic)
    listed = eventually(
        lambda: shell.ok("kafka-topics", "--list").split(), lambda listed: topic not in listed
    )
    assert topic not in listed


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kafka_console_consumer_reads_what_kafka_console_producer_wrote(
    shell: Shell, topic: str, compression: str
) -> None:
    lines = "".join(f"key-{number}\tvalue-{number}\n" for number in range(6))
    shell.ok(
        "kafka-console-producer",
        *("--topic", topic, "--compression-codec", compression, "--reader-property", "parse.key=true"),
        stdin=lines,
    )

    assert consume(shell, topic, 6) == sorted(lines.splitlines())


def test_kafka_configs_changes_and_describes_configs_of_a_topic(shell: Shell, topic: str) -> None:
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    shell.ok(
        "kafka-configs",
        "--alter",
        *of_topic,
        "--add-config",
        "retention.ms=99000,cleanup.policy=[compact,delete]",
    )
    described = shell.ok("kafka-configs", "--describe", *of_topic)
    shell.ok("kafka-configs", "--alter", *of_topic, "--delete-config", "retention.ms")
    less = shell.ok("kafka-configs", "--describe", *of_topic)
    everything = shell.ok("kafka-configs", "--describe", *of_topic, "--all")
    wrong = shell.run("kafka-configs", "--alter", *of_topic, "--add-config", "retention.ms=soon")

    assert "retention.ms=99000" in described
    assert "cleanup.policy=compact,delete" in described
    assert "retention.ms=99000" not in less
    assert "segment.bytes=1073741824" in everything
    assert (wrong.code, "InvalidConfigurationException" in wrong.text) == (1, True), wrong.text


def test_kafka_configs_sets_a_quota_that_kafka_topics_then_meets(shell: Shell, tmp_path: Path) -> None:
    client_id, topic = f"quota-{uuid4().hex[:8]}", f"java-{uuid4().hex[:8]}"
    config = tmp_path / "client.properties"
    config.write_text(f"client.id={client_id}\n")
    of_client = ("--entity-type", "users", "--entity-name", "ANONYMOUS")
    of_client += ("--entity-type", "clients", "--entity-name", client_id)
    create = ("kafka-topics", "--command-config", str(config), "--create")

    shell.ok("kafka-configs", "--alter", *of_client, "--add-config", "controller_mutation_rate=2")
    described = shell.ok("kafka-configs", "--describe", *of_client)
    shell.ok(*create, "--topic", f"{topic}-1", "--partitions", "60")
    rejected = shell.run(*create, "--topic", f"{topic}-2")
    shell.ok("kafka-configs", "--alter", *of_client, "--delete-config", "controller_mutation_rate")
    shell.ok(*create, "--topic", f"{topic}-2")

    assert "controller_mutation_rate=2.0" in described
    assert rejected.code != 0 and "The throttling quota has been exceeded" in rejected.text
    shell.ok("kafka-topics", "--delete", "--topic", f"{topic}-.*")


def test_kafka_configs_changes_configs_of_a_group_within_their_limits(shell: Shell) -> None:
    of_group = ("--entity-type", "groups", "--entity-name", f"java-group-{uuid4().hex[:8]}")
    session = "consumer.session.timeout.ms"
    shell.ok("kafka-configs", "--alter", *of_group, "--add-config", f"{session}=50000")
    described = shell.ok("kafka-configs", "--describe", *of_group)
    wrong = shell.run("kafka-configs", "--alter", *of_group, "--add-config", f"{session}=1")
    shell.ok("kafka-configs", "--alter", *of_group, "--delete-config", session)

    assert f"{session}=50000" in described
    assert f"DYNAMIC_GROUP_CONFIG:{session}=50000, DEFAULT_CONFIG:group.{session}=45000" in described
    assert f"{session} must be greater than or equal to group.consumer.min.session.timeout.ms" in wrong.text
    assert f"{session}=50000" not in shell.ok("kafka-configs", "--describe", *of_group)


def test_kafka_configs_changes_quotas_of_users_clients_and_addresses(shell: Shell) -> None:
    user, client = (f"java-{uuid4().hex[:8]}" for _ in range(2))
    of_user = ("--entity-type", "users", "--entity-name", user)
    of_client = (*of_user, "--entity-type", "clients", "--entity-name", client)
    of_address = ("--entity-type", "ips", "--entity-name", "10.9.8.7")
    of_all = ("--entity-type", "clients", "--entity-default")

    def alter(*words: str) -> None:
        shell.ok("kafka-configs", "--alter", *words)

    def described(*words: str) -> str:
        return shell.ok("kafka-configs", "--describe", *words)

    alter(*of_user, "--add-config", "producer_byte_rate=1024,request_percentage=12.5")
    alter(*of_client, "--add-config", "consumer_byte_rate=2048")
    alter(*of_address, "--add-config", "connection_creation_rate=7")
    alter(*of_all, "--add-config", "consumer_byte_rate=4096")
    wrong = shell.run("kafka-configs", "--alter", *of_user, "--add-config", "producer_byte_rate=-1")
    found = described(*of_user), described(*of_client), described(*of_address), described(*of_all)
    alter(*of_user, "--delete-config", "producer_byte_rate")
    alter(*of_all, "--delete-config", "consumer_byte_rate")
    left = described(*of_user), described(*of_all)
    # Other tests describe all quotas of these servers.
    alter(*of_user, "--delete-config", "request_percentage")
    alter(*of_client, "--delete-config", "consumer_byte_rate")
    alter(*of_address, "--delete-config", "connection_creation_rate")

    quotas = (
        ("producer_byte_rate=1024.0", "request_percentage=12.5"),
        ("consumer_byte_rate=2048.0",),
        ("connection_creation_rate=7.0",),
        ("consumer_byte_rate=4096.0",),
    )
    for text, wanted in zip(found, quotas, strict=True):
        assert all(one in text for one in wanted), text
    assert "must be greater than 0" in wrong.text
    assert "producer_byte_rate" not in left[0] and "12.5" in left[0]
    assert "consumer_byte_rate" not in left[1]


def test_kafka_configs_adds_and_deletes_scram_credentials(shell: Shell) -> None:
    user = f"java-{uuid4().hex[:8]}"
    of_user = ("--entity-type", "users", "--entity-name", user)

    for one in ("SCRAM-SHA-256=[iterations=8192,password=secret]", "SCRAM-SHA-512=[password=secret]"):
        shell.ok("kafka-configs", "--alter", *of_user, "--add-config", one)
    described = shell.ok("kafka-configs", "--describe", *of_user)
    many = "SCRAM-SHA-256=[iterations=20000,password=secret]"
    wrong = shell.run("kafka-configs", "--alter", *of_user, "--add-config", many)
    shell.ok("kafka-configs", "--alter", *of_user, "--delete-config", "SCRAM-SHA-256")
    less = shell.ok("kafka-configs", "--describe", *of_user)
    again = shell.run("kafka-configs", "--alter", *of_user, "--delete-config", "SCRAM-SHA-256")
    shell.ok("kafka-configs", "--alter", *of_user, "--delete-config", "SCRAM-SHA-512")

    assert "SCRAM-SHA-256=iterations=8192" in described and "SCRAM-SHA-512=iterations=4096" in described
    assert "Too many iterations" in wrong.text and wrong.code != 0
    assert "SCRAM-SHA-256" not in less and "SCRAM-SHA-512=iterations=4096" in less
    assert "does not exist" in again.text


def test_kafka_acls_are_rejected_without_an_authorizer(shell: Shell) -> None:
    alice = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "t")

    added = shell.run("kafka-acls", "--add", *alice)
    listed = shell.run("kafka-acls", "--list")

    for ran in (added, listed):
        assert "SecurityDisabledException" in ran.text and "No Authorizer is configured" in ran.text


def test_kafka_configs_describes_a_broker(shell: Shell) -> None:
    cluster = shell.ok("kafka-topics", "--describe", "--topic", _any_topic(shell))
    node = re.search(r"Leader: (\d+)", cluster)
    assert node is not None

    described = shell.ok(
        "kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", node[1], "--all"
    )

    assert "log.segment.bytes=1073741824" in described
    assert "num.partitions=1" in described


def _any_topic(shell: Shell) -> str:
    name = f"java-{uuid4().hex[:8]}"
    shell.ok("kafka-topics", "--create", "--topic", name)
    return name


def test_kafka_get_offsets_finds_the_ends_of_partitions_and_offsets_by_time(shell: Shell, topic: str) -> None:
    fill(shell, topic)

    latest = shell.ok("kafka-get-offsets", "--topic", topic).split()
    earliest = shell.ok("kafka-get-offsets", "--topic", topic, "--time", "earliest").split()
    max_time = shell.ok("kafka-get-offsets", "--topic", topic, "--time", "max-timestamp").split()
    by_time = shell.ok("kafka-get-offsets", "--topic", topic, "--time", "1").split()

    assert sum(int(line.rpartition(":")[2]) for line in latest) == 6
    assert earliest == [f"{topic}:0:0", f"{topic}:1:0"]
    assert len(max_time) == 2
    assert by_time == earliest


def test_kafka_delete_records_deletes_up_to_the_high_watermark(
    shell: Shell, topic: str, tmp_path: Path
) -> None:
    fill(shell, topic)
    wanted = tmp_path / "offsets.json"
    partitions = [{"topic": topic, "partition": index, "offset": -1} for index in (0, 1)]
    wanted.write_text(json.dumps({"partitions": partitions, "version": 1}))

    printed = shell.ok("kafka-delete-records", "--offset-json-file", str(wanted))

    assert "low_watermark" in printed
    earliest = shell.ok("kafka-get-offsets", "--topic", topic, "--time", "earliest").split()
    assert earliest == shell.ok("kafka-get-offsets", "--topic", topic).split()


def test_kafka_log_dirs_shows_the_size_of_each_partition(shell: Shell, topic: str) -> None:
    fill(shell, topic)

    printed = shell.ok("kafka-log-dirs", "--describe", "--topic-list", topic)
    document = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    sizes = {
        one["partition"]: one["size"]
        for broker in document["brokers"]
        for directory in broker["logDirs"]
        for one in directory["partitions"]
    }

    assert sizes.keys() == {f"{topic}-0", f"{topic}-1"}
    assert sum(sizes.values()) > 100


def test_kafka_consumer_perf_test_reads_all_that_kafka_producer_perf_test_sent(
    shell: Shell, topic: str
) -> None:
    printed = shell.tools.run(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        *("--command-property", f"bootstrap.servers={shell.bootstrap}"),
    )

    assert printed.code == 0
    assert "20000 records sent" in printed.text
    read = shell.ok(
        "kafka-consumer-perf-test", "--topic", topic, "--num-records", "20000", "--timeout", "20000"
    )
    assert " 20000," in read


def test_kafka_consumer_groups_lists_describes_resets_and_deletes_a_group(shell: Shell, topic: str) -> None:
    group = f"java-group-{uuid4().hex[:8]}"
    of_group = ("--group", group)
    fill(shell, topic)
    assert len(consume(shell, topic, 6, "--group", group)) == 6

    assert group in shell.ok("kafka-consumer-groups", "--list").split()
    assert group in shell.ok("kafka-groups", "--list")
    described = shell.ok("kafka-consumer-groups", "--describe", *of_group)
    rows = [line.split() for line in described.splitlines() if topic in line]
    assert {row[2]: row[5] for row in rows} == {"0": "0", "1": "0"}, "no lag"
    assert "Empty" in shell.ok("kafka-consumer-groups", "--describe", *of_group, "--state")
    committed = formatted(shell, "OffsetsMessageFormatter", group)
    assert {(key["topic"], key["partition"]) for key, _ in committed} == {(topic, 0), (topic, 1)}
    assert sum(value["offset"] for value in last_values(committed)) == 6
    (kept,) = last_values(formatted(shell, "GroupMetadataMessageFormatter", group))
    assert (kept["protocolType"], kept["members"]) == ("consumer", [])
    reset = shell.ok(
        "kafka-consumer-groups", "--reset-offsets", *of_group, "--topic", topic, "--to-earliest", "--execute"
    )
    assert [line.split()[-1] for line in reset.splitlines() if topic in line] == ["0", "0"]
    shell.ok("kafka-consumer-groups", "--delete-offsets", *of_group, "--topic", f"{topic}:0")
    shell.ok("kafka-consumer-groups", "--delete", *of_group)
    assert group not in shell.ok("kafka-consumer-groups", "--list").split()


def test_kafka_broker_api_versions_and_kafka_cluster_show_versions_and_the_cluster_id(shell: Shell) -> None:
    versions = shell.ok("kafka-broker-api-versions")

    assert "Produce(0): 0 to 13 [usable: 13]" in versions
    assert "Fetch(1): 4 to 18 [usable: 18]" in versions
    assert re.search(
        r"Cluster ID: \S{22}",
        shell.tools.run("kafka-cluster", "cluster-id", "--bootstrap-server", shell.bootstrap).text,
    )


def test_kafka_metadata_quorum_describes_the_leader_and_its_log(shell: Shell) -> None:
    status = shell.ok("kafka-metadata-quorum", "describe", "--status")
    replication = shell.ok("kafka-metadata-quorum", "describe", "--replication", "--human-readable")

    found = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    assert int(found["HighWatermark"]) > 0 and int(found["LeaderEpoch"]) > 0
    leader = found["LeaderId"].strip()
    assert re.search(rf"^{leader}\s+\S+\s+\d+\s+0\s.*Leader", replication, flags=re.M), replication


def test_kafka_leader_election_leaves_a_preferred_leader_as_it_is(shell: Shell, topic: str) -> None:
    printed = shell.run(
        "kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0"
    )

    assert f"Valid replica already elected for partitions {topic}-0" in printed.text, printed.text


def test_kafka_reassign_partitions_completes_a_plan_and_removes_its_throttle(
    shell: Shell, topic: str, tmp_path: Path
) -> None:
    node = re.search(r"Leader: (\d+)", shell.ok("kafka-topics", "--describe", "--topic", topic))
    assert node is not None
    plan = tmp_path / "plan.json"
    partitions = [{"topic": topic, "partition": index, "replicas": [int(node[1])]} for index in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    file = ("--reassignment-json-file", str(plan))

    shell.ok("kafka-reassign-partitions", "--execute", *file, "--throttle", "1000000")
    verified = shell.ok("kafka-reassign-partitions", "--verify", *file)

    assert f"Reassignment of partition {topic}-0 is completed." in verified
    assert "No partition reassignments found." in shell.ok("kafka-reassign-partitions", "--list")
    described = shell.ok("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", topic)
    assert "throttled" not in described, "verify removes the throttle"


def test_kafka_features_describes_and_changes_levels(shell: Shell) -> None:
    described = shell.ok("kafka-features", "describe")
    rejected = shell.run("kafka-features", "upgrade", "--feature", "metadata.version=999")

    assert re.search(r"metadata.version.*FinalizedVersionLevel: \S+", described), described
    assert rejected.code == 1
    assert re.search(r"group.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1\s+Fin.*: 1", described)
    assert re.search(
        r"transaction.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+Fin.*: 2", described
    )
    try:
        shell.ok("kafka-features", "downgrade", "--feature", "group.version=0")
        described = eventually(
            lambda: shell.ok("kafka-features", "describe"),
            lambda text: re.search(r"group.version.*FinalizedVersionLevel: 0", text) is not None,
        )
        assert re.search(r"group.version.*FinalizedVersionLevel: 0", described), described
    finally:
        shell.ok("kafka-features", "upgrade", "--feature", "group.version=1")


def test_an_older_release_downgrades_no_feature(shell: Shell) -> None:
    """Release 4.3 has features that this cluster lacks, and share.version 1, where a new cluster has 2."""
    before = shell.ok("kafka-features", "describe")

    release = shell.run("kafka-features", "upgrade", "--release-version", "4.3")
    level = shell.run("kafka-features", "upgrade", "--feature", "share.version=1")

    assert (release.code, level.code) == (1, 1)
    assert "Could not upgrade share.version to 1" in release.text, release.text
    assert "Can't downgrade the version of this feature" in level.text, level.text
    assert re.search(r"share.version.*FinalizedVersionLevel: 2", before)
    assert shell.ok("kafka-features", "describe") == before


def test_kafka_cluster_lists_endpoints(shell: Shell) -> None:
    listed = shell.tools.run(
        "kafka-cluster", "list-endpoints", "--bootstrap-server", shell.bootstrap, "--include-fenced-brokers"
    )

    assert re.search(r"^\d+\s+127.0.0.1\s+\d+\s+\S+\s+unfenced\s+broker", listed.text, flags=re.M), (
        listed.text
    )
