"""The plan of a balance in the console: shown, executed, cancelled."""

from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from selenium import webdriver

from ottla.node.embedded import Cluster
from tests.console.console_page import ConsolePage
from tests.console.makers import TIMEOUT_S, fill
from tests.integration.cluster.conftest import eventually

pytestmark = pytest.mark.slow

TOPIC, PARTITIONS = "lopsided", 6
SLOW = {"ottla.balance.max.bytes.per.second": "50000", "ottla.balance.concurrent.moves": "1"}


@pytest.fixture
def uneven() -> Iterator[Cluster]:
    """Start three nodes, with all replicas of a topic on the first one; copies are slow."""
    with Cluster(3, rest=True, overrides=SLOW) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        placed = [[0] for _ in range(PARTITIONS)]
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, replica_assignment=placed)])[TOPIC].result(TIMEOUT_S)
        yield cluster


@pytest.fixture
def page(browser: webdriver.Chrome, uneven: Cluster) -> Iterator[ConsolePage]:
    page = ConsolePage(browser, uneven.rest_urls[0])
    page.resize(1280)
    page.load("#/reassignments/balance")
    yield page
    page.load("#/nothing")
    browser.get("about:blank")
    assert page.errors() == []


def replicas(cluster: Cluster) -> Counter[int]:
    """Return the number of replicas of the topic on each node."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    partitions = admin.list_topics(TOPIC, timeout=TIMEOUT_S).topics[TOPIC].partitions.values()
    return Counter(replica for one in partitions for replica in one.replicas)


def test_a_plan_is_shown_then_executed_and_shown_again(page: ConsolePage, uneven: Cluster) -> None:
    page.sees("would change.", "Replicas", "Leaders", "Size of logs", "Moves of the plan")
    assert page.cells(TOPIC, "replicas")[2].startswith("0 → ")
    figures = "return document.querySelector('.bars').innerText"
    assert page.script(figures).split("\n")[:5] == ["Replicas", "before", "after", "broker 0", "6 → 2"]

    page.click("Execute…")
    page.sees("Balance the cluster?", "the next controller continues")
    assert page.focused() == "Cancel"
    page.click("Balance the cluster")

    page.sees("The controller balances the cluster.")
    page.sees("The cluster is balanced: nothing is left to move.")
    eventually(lambda: replicas(uneven) == {0: 2, 1: 2, 2: 2}, "each node has two replicas")
    page.waits_until_gone("Execute…")
    page.waits_until_gone("Cancel…")


def test_moving_replicas_show_progress_and_can_be_cancelled(page: ConsolePage, uneven: Cluster) -> None:
    producer = Producer({"bootstrap.servers": uneven.bootstrap, "log_level": 0})
    for partition in range(PARTITIONS):
        fill(producer, TOPIC, *(b"x" * 100_000 for _ in range(60)), partition=partition)
    page.sees("would change.", "to copy, at least")

    page.click("Execute…")
    page.click("Balance the cluster")
    page.sees("The cluster is being balanced: 1 partition moves.", "Moves under way", "Moves that are left")
    page.row(TOPIC, "%", "left")
    page.click("Cancel…")
    page.sees("stay where they were")
    page.click("Cancel the balance")

    page.sees("The balance is cancelled. 1 move was reverted.")
    page.waits_until_gone("Moves under way")
    page.sees("Execute…")
    eventually(lambda: replicas(uneven) == {0: PARTITIONS}, "the replicas are where they were")
