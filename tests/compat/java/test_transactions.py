"""Java's transactional producers in two versions, which use the two protocols of transactions (KIP-890).

3.9.2 uses the old protocol, and 4.3.1 the one in which each end bumps the epoch. kafka-transactions is tested
with all of its commands.
"""

import re
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from tests.compat.java.jars import KAFKA, OLDER_CLIENTS, reason_to_skip
from tests.compat.java.kafka_tools import KafkaTools
from tests.compat.java.test_kafka_tools import Shell
from tests.compat.java.transactions import JavaError, Transactions
from tests.compat.raw_transactions import leave_hanging
from tests.compat.topics import last_stable_offsets, leader_of, new_topic
from tests.compat.wire_client import WireClient, eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]
OLD, NEW = "3.9.2", "4.3.1"
CLIENTS = {OLD: OLDER_CLIENTS, NEW: KAFKA}
TIMEOUT_S = 60.0
# Exceptions of a producer that has a successor or whose transaction timed out; the protocol and its last
# request decide which.
FENCED = {"ProducerFencedException", "InvalidProducerEpochException"}


@pytest.fixture(scope="module")
def start(cluster_bootstrap: str) -> Iterator[Callable[[str], Transactions]]:
    """Give a function that returns the one JVM with the clients of a version."""
    started: dict[str, Transactions] = {}

    def jvm(version: str) -> Transactions:
        if version not in started:
            if (reason := reason_to_skip(CLIENTS[version])) is not None:
                pytest.skip(reason)
            started[version] = Transactions(cluster_bootstrap, CLIENTS[version])
        return started[version]

    yield jvm
    for one in started.values():
        one.close()


@pytest.fixture(params=[OLD, NEW])
def java(request: pytest.FixtureRequest, start: Callable[[str], Transactions]) -> Transactions:
    return start(request.param)


@pytest.fixture
def moves_epoch(request: pytest.FixtureRequest, java: Transactions) -> bool:
    """Return True if the client uses the new protocol."""
    return bool(request.node.callspec.params["java"] == NEW)


@pytest.fixture
def topic(cluster_bootstrap: str) -> str:
    return new_topic(cluster_bootstrap, 2)


@pytest.fixture
def shell(tools: KafkaTools, cluster_bootstrap: str) -> Shell:
    return Shell(tools, cluster_bootstrap)


def name(prefix: str) -> str:
    return f"{prefix}-{uuid4().hex[:8]}"


def transactions(shell: Shell, *arguments: str) -> list[dict[str, str]]:
    """Return the rows that kafka-transactions prints, by its headings.

    No cell has a space, and the last one may be empty.
    """
    printed = shell.ok("kafka-transactions", *arguments)
    lines = [line.split() for line in printed.splitlines()]
    first = next(number for number, words in enumerate(lines) if "ProducerId" in words)
    return [dict(zip(lines[first], words, strict=False)) for words in lines[first + 1 :] if words]


def begin(java: Transactions, producer: str, transactional_id: str, *config: str) -> None:
    java("producer", producer, transactional_id, *config)
    java("init", producer)
    java("begin", producer)


def is_read(java: Transactions, topic: str, *values: str) -> bool:
    """Return True if exactly these values are committed.

    Markers are written after the producer has its response.
    """
    found = eventually(
        lambda: java("read", topic, "true"), lambda read: sorted(read) == sorted(values), TIMEOUT_S
    )
    return sorted(found) == sorted(values)


def exception_of(call: Callable[[], object]) -> str:
    with pytest.raises(JavaError) as error:
        call()
    return error.value.name


def test_committed_records_are_read_and_aborted_ones_are_not(
    java: Transactions, moves_epoch: bool, topic: str, shell: Shell
) -> None:
    anna, my_id = name("anna"), name("id")
    begin(java, anna, my_id)
    for number, end in enumerate(("commit", "abort", "commit", "abort", "commit")):
        if number:
            java("begin", anna)
        java("send", anna, f"{topic}-0", f"{number}-{end}")
        java("send", anna, f"{topic}-1", f"{number}-{end}-a", f"{number}-{end}-b")
        java(end, anna)
    java("begin", anna)
    java("send", anna, f"{topic}-1", "5-open")
    [described] = transactions(shell, "describe", "--transactional-id", my_id)

    committed = [f"{number}-commit" for number in (0, 2, 4)]
    both = [f"{topic}-1:{one}-{part}" for one in committed for part in "ab"]
    assert is_read(java, topic, *(f"{topic}-0:{one}" for one in committed), *both)
    assert len(java("read", topic, "false")) == 16
    # Each end has bumped the epoch, in the new protocol alone.
    assert int(described["ProducerEpoch"]) == (5 if moves_epoch else 0)
    assert (described["TransactionState"], described["TopicPartitions"]) == ("Ongoing", f"{topic}-1")
    java("abort", anna)
    java("close", anna)


def test_a_producer_that_has_a_successor_is_fenced(java: Transactions, topic: str) -> None:
    anna, berta, same_id = name("anna"), name("berta"), name("id")
    begin(java, anna, same_id)
    java("send", anna, f"{topic}-0", "of-anna")
    begin(java, berta, same_id)
    java("send", berta, f"{topic}-0", "of-berta")

    assert exception_of(lambda: java("commit", anna)) in FENCED
    assert exception_of(lambda: java("begin", anna)) in {*FENCED, "KafkaException"}
    java("commit", berta)
    assert is_read(java, topic, f"{topic}-0:of-berta")
    java("close", anna)
    java("close", berta)


def test_a_transaction_is_aborted_after_its_timeout(java: Transactions, topic: str) -> None:
    anna = name("anna")
    begin(java, anna, name("id"), "transaction.timeout.ms=500")
    java("send", anna, f"{topic}-0", "too-late")
    eventually(lambda: java("read", topic, "false"), bool, TIMEOUT_S)
    java("producer", reader := name("other"), name("id"))
    java("init", reader)
    java("begin", reader)
    java("send", reader, f"{topic}-0", "behind-it")
    java("commit", reader)

    assert is_read(java, topic, f"{topic}-0:behind-it")
    assert exception_of(lambda: java("commit", anna)) in {*FENCED, "InvalidTxnStateException"}
    java("close", anna)
    java("close", reader)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_move_with_the_transaction(
    cluster_bootstrap: str, java: Transactions, topic: str, shell: Shell, protocol: str
) -> None:
    anna, reader, group = name("anna"), name("reader"), name("group")
    copies = new_topic(cluster_bootstrap)
    begin(java, anna, name("id"))
    java("send", anna, f"{topic}-0", "a", "b", "c", "d")
    java("commit", anna)
    java("consumer", reader, group, topic, "max.poll.records=2", f"group.protocol={protocol}")

    def committed() -> list[str]:
        printed = shell.run("kafka-consumer-groups", "--describe", "--group", group, "--offsets").text
        rows = [line.split() for line in printed.splitlines() if f" {topic} " in line]
        return [row[3] for row in rows if row[2] == "0"]

    assert java("poll", reader, "2") == [f"{topic}-0:a", f"{topic}-0:b"]
    java("begin", anna)
    java("send", anna, f"{copies}-0", "A", "B")
    java("offsets", anna, reader)
    java("abort", anna)
    assert committed() in ([], ["-"])
    java("begin", anna)
    java("send", anna, f"{copies}-0", "A", "B")
    java("offsets", anna, reader)
    java("commit", anna)
    assert eventually(committed, lambda found: found == ["2"], TIMEOUT_S) == ["2"]
    assert is_read(java, copies, f"{copies}-0:A", f"{copies}-0:B")

    # A consumer that has left the group commits nothing.
    java("poll", reader, "2")
    later = name("later")
    java("consumer", later, group, topic, f"group.protocol={protocol}")
    java("close", reader)
    assert java("poll", later, "2") == [f"{topic}-0:c", f"{topic}-0:d"]
    java("begin", anna)
    java("send", anna, f"{copies}-0", "C", "D")
    java("offsets", anna, later)
    java("commit", anna)
    assert eventually(committed, lambda found: found == ["4"], TIMEOUT_S) == ["4"]
    java("close", later)
    java("close", anna)


def test_kafka_transactions_lists_describes_and_terminates_a_transaction(
    start: Callable[[str], Transactions], topic: str, shell: Shell
) -> None:
    java, anna, my_id = start(NEW), name("anna"), name("id")
    begin(java, anna, my_id)
    java("send", anna, f"{topic}-0", "a", "b")
    where = ("--topic", topic, "--partition", "0")

    listed = [one for one in transactions(shell, "list") if one["TransactionalId"] == my_id]
    matching = transactions(shell, "list", "--transactional-id-pattern", f"{my_id[:-1]}.")
    [described] = transactions(shell, "describe", "--transactional-id", my_id)
    [producer] = transactions(shell, "describe-producers", *where)

    assert [one["TransactionState"] for one in listed] == ["Ongoing"]
    assert matching == listed and matching[0]["Coordinator"] == described["CoordinatorId"]
    # An id without an open transaction passes the filter too.
    old = transactions(shell, "list", "--duration-filter", "3600000")
    assert "Ongoing" not in [one["TransactionState"] for one in old]
    assert (described["TransactionTimeoutMs"], described["TopicPartitions"]) == ("60000", f"{topic}-0")
    assert producer["ProducerId"] == described["ProducerId"] == listed[0]["ProducerId"]
    assert (producer["LastSequence"], producer["CurrentTransactionStartOffset"]) == ("1", "0")

    shell.ok("kafka-transactions", "forceTerminateTransaction", "--transactionalId", my_id)
    assert exception_of(lambda: java("commit", anna)) in FENCED
    [described] = transactions(shell, "describe", "--transactional-id", my_id)
    assert (described["TransactionState"], described.get("TopicPartitions")) == ("Empty", None)
    java("close", anna)


def test_kafka_transactions_finds_and_aborts_hanging_transactions(
    cluster_bootstrap: str, topic: str, shell: Shell
) -> None:
    with WireClient(leader_of(cluster_bootstrap, topic)) as wire:
        leave_hanging(wire, topic, 2**41, 3)
    search = ("find-hanging", "--topic", topic, "--max-transaction-timeout")

    assert transactions(shell, *search, "15") == []
    found = eventually(lambda: transactions(shell, *search, "0"), bool, TIMEOUT_S)

    assert [(one["ProducerId"], one["StartOffset"]) for one in found] == [(str(2**41), "0")]
    # Every replica has it.
    brokers = re.findall(r"\(id: (\d+) ", shell.run("kafka-broker-api-versions").text)
    assert brokers
    for broker in brokers:
        of_broker = ("find-hanging", "--broker-id", broker, "--max-transaction-timeout", "0")
        rows = eventually(
            lambda words=of_broker: [one for one in transactions(shell, *words) if one["Topic"] == topic],
            bool,
            TIMEOUT_S,
        )
        assert [one["StartOffset"] for one in rows] == ["0"]
    assert last_stable_offsets(cluster_bootstrap, topic)[0] == 0
    shell.ok("kafka-transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert last_stable_offsets(cluster_bootstrap, topic)[0] == 2
    assert transactions(shell, *search, "0") == []
