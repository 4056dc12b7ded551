"""Transactions in the console: listed, shown, aborted."""

import pytest
from confluent_kafka import KafkaException, Producer

from ottla.node.embedded import Cluster
from tests.compat.raw_transactions import leave_hanging
from tests.compat.wire_client import WireClient
from tests.console.console_page import ConsolePage
from tests.console.makers import TIMEOUT_S, make_topic
from tests.integration.rest.conftest import name_of

pytestmark = pytest.mark.slow


def test_an_open_transaction_is_found_and_aborted(console: ConsolePage, cluster: Cluster) -> None:
    topic, transactional_id = make_topic(cluster, "moved"), name_of("copier")
    writer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id})
    writer.init_transactions(TIMEOUT_S)
    writer.begin_transaction()
    writer.produce(topic, b"open")
    writer.flush(TIMEOUT_S)

    console.open("#/transactions")
    console.fill("Search", transactional_id)
    console.click("only open transactions")
    console.row(transactional_id, "Ongoing")
    console.click(transactional_id)
    assert console.fact("State") == "Ongoing"
    assert console.cells(topic) == [topic, "0", "0"]

    console.click("Abort…")
    console.sees("its producer is fenced")
    console.click("Abort the transaction")

    console.sees(f"The transaction of {transactional_id} is aborted.")
    console.eventually(lambda: console.fact("State") == "Empty", "it is not aborted")
    console.waits_until_gone("Abort…")
    with pytest.raises(KafkaException):
        writer.commit_transaction(TIMEOUT_S)


def test_a_transaction_that_is_not_open_cannot_be_aborted(console: ConsolePage, cluster: Cluster) -> None:
    transactional_id = name_of("idle")
    Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id}
    ).init_transactions()

    console.open(f"#/transactions/id/{transactional_id}")

    assert console.fact("State") == "Empty"
    assert "Abort" not in console.text()


def test_a_hanging_transaction_is_found_and_ended(console: ConsolePage, cluster: Cluster) -> None:
    topic = make_topic(cluster, "hangs")
    leader = cluster.bootstrap.split(",")[cluster.leader_of(topic, 0)]
    with WireClient(leader) as wire:
        leave_hanging(wire, topic, 2**40, 3)
    console.open("#/transactions/hanging")
    console.fill("Minutes without a new record", "0")
    console.click("Search")
    assert console.cells_of(topic)[1:4] == ["0", "0", str(2**40)]

    console.click("Abort at offset 0")
    console.sees(f"Abort the transaction open in {topic}, partition 0, from offset 0?")
    console.click("Write the abort marker")

    console.sees("The abort marker is written.")
    console.sees("No hanging transactions found.")


def test_hanging_transactions_are_searched_for(console: ConsolePage) -> None:
    console.open("#/transactions/hanging")
    console.sees("No hanging transactions found.")

    console.fill("Minutes without a new record", "soon")
    console.click("Search")
    console.sees("Minutes must be a whole number")
    console.fill("Minutes without a new record", "30")
    console.click("Search")

    console.waits_until_gone("Minutes must be a whole number")
    console.sees("No hanging transactions found.")
