"""`ottla topic copy`: a copy has identical records in each partition, also in another cluster."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ottla.node.embedded import Cluster
from tests.compat.command_line import ottla

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_process_is_left")]
SHOWN = ("-f", "%p %T %k %s %h\\n")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        yield running


@pytest.fixture(scope="module")
def other() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        yield running


@pytest.fixture
def source(cluster: Cluster) -> str:
    """Create a topic of two partitions with three records each."""
    name = f"source-{uuid4().hex[:8]}"
    ottla(cluster.bootstrap, "topic", "create", name, "-p", "2", "-c", "retention.ms=-1")
    lines = [
        {
            "key": None if number == 2 else f"key-{number}",
            "value": f"{partition}-{number}" if number != 3 else None,
            "partition": partition,
            "timestamp": number * 1000,
            "headers": [{"key": "kind", "value": "a"}, {"key": "kind", "value": f"{number}"}],
        }
        for partition in (0, 1)
        for number in (1, 2, 3)
    ]
    given = "".join(f"{json.dumps(line)}\n" for line in lines)
    ottla(cluster.bootstrap, "produce", name, "-q", "--input", "json", given=given)
    return name


def records(cluster: Cluster, topic: str) -> list[str]:
    return sorted(ottla(cluster.bootstrap, "consume", topic, "-e", *SHOWN).splitlines())


def test_partitions_keep_keys_headers_times_and_order(cluster: Cluster, source: str) -> None:
    where, copy = cluster.bootstrap, f"{source}-copy"

    output = ottla(where, "topic", "copy", source, copy, "--create-topic")

    assert output.splitlines()[1:] == [
        "0          3        0            3            3",
        "1          3        0            3            3",
    ]
    assert records(cluster, copy) == records(cluster, source) and len(records(cluster, copy)) == 6
    in_order = ottla(where, "consume", copy, "-e", "-p", "1", "-f", "%T\\n").split()
    assert in_order == ["1000", "2000", "3000"]


def test_another_cluster_is_reached_by_its_own_profile_address_or_file(
    cluster: Cluster, other: Cluster, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = cluster.bootstrap
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    ottla(where, "profile", "create", "other", "-b", other.bootstrap)
    file = tmp_path / "other.properties"
    file.write_text(f"bootstrap.servers={other.bootstrap}\n")

    ottla(where, "topic", "copy", source, source, "--create-topic", "--to-profile", "other")
    ottla(where, "topic", "copy", source, source, "--to-command-config", str(file), "-p", "1")
    copies: Any = json.loads(
        ottla(
            *(where, "topic", "copy", source, source, "--to-bootstrap", other.bootstrap),
            *("--from", "-1", "--output", "json"),
        )
    )

    assert [(one["records"], one["first_offset"], one["next_offset"]) for one in copies] == [
        (1, 2, 3),
        (1, 2, 3),
    ]
    assert len(records(other, source)) == 6 + 3 + 2


def test_a_typo_creates_no_topic(cluster: Cluster, source: str) -> None:
    where = cluster.bootstrap
    ottla(where, "topic", "create", f"{source}-small", "-p", "1")

    unknown = ottla(where, "topic", "copy", source, f"{source}-typo", code=1)
    missing = ottla(where, "topic", "copy", f"{source}-typo", source, code=1)
    small = ottla(where, "topic", "copy", source, f"{source}-small", code=1)
    itself = ottla(where, "topic", "copy", source, source, code=2)
    partition = ottla(where, "topic", "copy", source, f"{source}-small", "-p", "7", code=1)

    assert f"Topic '{source}-typo' does not exist there." in unknown
    assert "does not exist" in missing and f"{source}-typo" not in ottla(where, "topic", "list")
    assert f"has 1 partition, and {source} needs 2" in small
    assert "cannot be copied into itself" in itself and "has no partition 7" in partition
    assert records(cluster, f"{source}-small") == []


def test_records_of_aborted_transactions_are_left_out(cluster: Cluster) -> None:
    from confluent_kafka import Producer

    where, name = cluster.bootstrap, f"txn-{uuid4().hex[:8]}"
    ottla(where, "topic", "create", name, "-p", "1")
    producer = Producer({"bootstrap.servers": where, "transactional.id": name})
    producer.init_transactions()
    for value, commits in (("kept", True), ("dropped", False), ("kept too", True), ("dropped too", False)):
        producer.begin_transaction()
        producer.produce(name, value)
        producer.flush()
        producer.commit_transaction() if commits else producer.abort_transaction()

    copies: Any = json.loads(
        ottla(where, "topic", "copy", name, f"{name}-copy", "--create-topic", "--output", "json")
    )

    [row] = copies
    assert row["records"] == 2 and row["next_offset"] == row["end_offset"] == 8
    assert ottla(where, "consume", f"{name}-copy", "-e") == "kept\nkept too\n"


def test_a_record_too_large_for_the_target_ends_the_copy_at_its_offset(cluster: Cluster) -> None:
    where, name = cluster.bootstrap, f"large-{uuid4().hex[:8]}"
    ottla(where, "topic", "create", name, "-p", "1")
    ottla(where, "topic", "create", f"{name}-copy", "-p", "1", "-c", "max.message.bytes=1000")
    ottla(where, "produce", name, "-q", given="small\n" + "x" * 2000 + "\n")

    message = ottla(where, "topic", "copy", name, f"{name}-copy", code=1)

    assert f"The record at offset 1 of {name}-0 cannot be copied" in message
