"""Groups in the console: state, members, lag, rebalances, resets."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from ottla.node.embedded import Cluster
from tests.console.console_page import ConsolePage
from tests.console.makers import commit, fill, make_topic
from tests.integration.cluster.conftest import eventually
from tests.integration.rest.conftest import name_of

pytestmark = pytest.mark.slow


@pytest.fixture
def topic(cluster: Cluster, producer: Producer) -> str:
    """Create a topic with ten records in one partition."""
    topic = make_topic(cluster, "grouped")
    fill(producer, topic, *(b"x" for _ in range(10)))
    return topic


@pytest.fixture
def member(cluster: Cluster, topic: str) -> Iterator[tuple[str, str]]:
    """Start a group with one member; yield the group and the member's client id."""
    group, client = name_of("readers"), name_of("client")
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "client.id": client,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.1) is not None, "the member reads")
    yield group, client
    consumer.close()


def test_a_group_shows_members_assignment_lag_and_rebalances(
    console: ConsolePage, topic: str, member: tuple[str, str]
) -> None:
    group, client = member
    console.open("#/groups")
    console.fill("Search", group)
    console.row(group, "Stable")
    console.click(group)

    console.sees("Members", "Lag by partition", "Rebalances")
    assert console.title() == group
    assert console.fact("State") == "Stable" and console.fact("Members") == "1"
    assert client in console.row(f"{topic} 0").text
    console.sees("took ")


def test_the_lag_of_the_last_hour_is_drawn(console: ConsolePage, cluster: Cluster, topic: str) -> None:
    group = name_of("drawn")
    commit(cluster, group, topic, 4)
    console.open(f"#/groups/{group}")

    console.sees("Last hour", "Lag in records")
    label = "return document.querySelector('.charts svg')?.getAttribute('aria-label')"
    console.eventually(lambda: console.script(label) == "Lag in records: lag 6", "the lag is not drawn")


def test_lag_is_shown_in_records_and_in_time(console: ConsolePage, cluster: Cluster, topic: str) -> None:
    group = name_of("behind")
    commit(cluster, group, topic, 4)

    console.open(f"#/groups/{group}")

    console.eventually(lambda: console.fact("Lag in records") == "6", "the lag is not 6")
    cells = console.cells(topic)
    assert cells[1:5] == ["0", "4", "10", "6"]
    assert cells[5].endswith(("ms", " s", "min"))
    assert console.fact("State") == "Empty"


def test_the_list_of_groups_shows_members_and_total_lag(
    console: ConsolePage, cluster: Cluster, topic: str, member: tuple[str, str]
) -> None:
    group = name_of("behind")
    commit(cluster, group, topic, 3)
    console.open("#/groups")

    console.eventually(lambda: console.cells_of(group)[3:5] == ["0", "7"], "the lag is not 7")
    assert console.cells_of(group)[5].endswith(("ms", " s", "min"))
    console.eventually(lambda: console.cells_of(member[0])[3] == "1", "no member is shown")


def test_a_reset_is_shown_before_it_is_done(console: ConsolePage, cluster: Cluster, topic: str) -> None:
    group = name_of("again")
    commit(cluster, group, topic, 9)
    console.open(f"#/groups/{group}")
    console.click("Reset offsets")

    console.choose("Reset to", "an offset")
    console.fill("Offset", "3")
    console.click("Show what would change")
    console.sees("What would change")
    assert console.cells(topic)[:4] == [topic, "0", "9", "3"]
    console.click("Reset the offsets…")
    console.sees(f"Reset the offsets of {group}?")
    console.click("Reset the offsets")

    console.sees(f"The offsets of {group} are reset.")
    console.click("State and lag")
    console.eventually(lambda: console.fact("Lag in records") == "7", "the lag is not 7")


def test_a_reset_of_a_group_with_members_is_rejected(console: ConsolePage, member: tuple[str, str]) -> None:
    group, client = member
    console.open(f"#/groups/{group}/reset")

    console.click("Show what would change")

    console.sees("is active", client)


def test_a_reset_offers_only_partitions_that_the_group_reads(
    console: ConsolePage, cluster: Cluster, topic: str
) -> None:
    group = name_of("whole")
    commit(cluster, group, topic, 9)
    console.open(f"#/groups/{group}/reset")

    console.choose("Topic", topic)
    console.choose("Partitions", "0")
    console.click("Show what would change")

    assert console.cells(topic)[:4] == [topic, "0", "9", "0"]


def test_a_group_is_deleted_after_confirmation(console: ConsolePage, cluster: Cluster, topic: str) -> None:
    group = name_of("goes")
    commit(cluster, group, topic, 1)
    console.open(f"#/groups/{group}")

    console.click("Delete…")
    console.sees("Its committed offsets are deleted.")
    console.click("Delete the group")

    console.sees(f"Group {group} is deleted.")
    console.fill("Search", group)
    console.sees("No group id contains this text.", "groups")
