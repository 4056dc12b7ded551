"""Brokers, the quorum and moves in the console."""

import re

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.embedded import Cluster
from tests.console.console_page import ConsolePage
from tests.console.makers import TIMEOUT_S, fill, make_topic
from tests.integration.rest.conftest import name_of

pytestmark = pytest.mark.slow


def names_the_controller(console: ConsolePage, cluster: Cluster) -> None:
    """Check that the console names the controller, following it if another node becomes the controller."""
    console.eventually(
        lambda: console.fact("Controller") == f"node {cluster.controller_id}", "another controller is shown"
    )


def test_the_overview_says_that_all_is_well(console: ConsolePage, cluster: Cluster) -> None:
    make_topic(cluster, "seen")
    console.open("#/")

    console.sees("All is well.", "3 of 3 brokers running")
    console.eventually(lambda: console.fact("Quorum") == "3 of 3 voters", "a voter is missing")
    names_the_controller(console, cluster)
    assert console.fact("Brokers") == "3 of 3"
    assert console.fact("Without a leader") == console.fact("Under-replicated") == "0"
    for node_id in cluster.node_ids:
        assert console.cells_of(str(node_id))[1].startswith("active")


def test_charts_show_the_traffic_of_the_cluster_or_of_a_node(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "charted", partitions=6)
    console.open("#/")
    console.sees("Charts of", "Produce latency")

    def send(led_by: int | None) -> None:
        for partition in range(6):
            if led_by in (None, cluster.leader_of(topic, partition)):
                fill(producer, topic, *(b"x" * 1000 for _ in range(20)), partition=partition)

    def moves(led_by: int | None = None) -> bool:
        send(led_by)
        label = console.script(
            "return document.querySelector('.charts svg[role=img]').getAttribute('aria-label')"
        )
        return re.fullmatch(r"Client traffic: in [1-9][0-9.,]* [KM]?i?B/s, out .*", label) is not None

    # Traffic through another node is shown too: in the chart of the cluster, and in that of the node.
    console.eventually(lambda: moves(led_by=2), "the chart of the cluster shows nothing")
    console.choose("Charts of", "node 2")
    console.eventually(lambda: moves(led_by=2), "the chart of node 2 shows nothing")
    console.choose("Charts of", "the whole cluster")
    console.eventually(moves, "the chart of the cluster shows nothing")
    console.eventually(
        lambda: console.script("return document.querySelectorAll('.charts polyline').length") >= 4, "no lines"
    )
    for page in ("#/", "#/brokers"):
        console.load(page)

        def is_shown() -> bool:
            send(led_by=2)
            return re.match(r"[1-9].*B/s", console.cells_of("2")[7]) is not None

        console.eventually(is_shown, f"{page} does not show the traffic of clients to node 2")


def test_charts_start_with_the_samples_that_nodes_have_kept(console: ConsolePage) -> None:
    """The nodes take a sample each second here; a newly opened page shows all of them at once."""
    has_past = "return performance.getEntriesByType('resource').some((one) => one.name.includes('/history'))"
    console.load("#/")
    console.eventually(lambda: console.script(has_past), "the kept samples are not requested")
    points = (
        "return document.querySelector('.charts polyline')?.getAttribute('points').split(' ').length ?? 0"
    )
    console.eventually(lambda: console.script(points) >= 5, "the chart is empty")

    console.choose("Last", "5 minutes")
    console.choose("Charts of", "node 1")
    console.eventually(lambda: console.script(points) >= 5, "the chart of node 1 is empty")

    console.open("#/brokers/1")
    console.sees("Last hour", "Size of logs", "Replication traffic")
    assert console.fact("State").split()[0] == "active"


def test_a_topic_has_its_own_charts(console: ConsolePage, cluster: Cluster, producer: Producer) -> None:
    topic = make_topic(cluster, "remembered")
    console.open(f"#/topics/{topic}")
    console.sees("Last hour", "Records produced", "Size on leaders")

    def is_drawn() -> bool:
        fill(producer, topic, b"x" * 1000)
        label = "return document.querySelector('.charts svg')?.getAttribute('aria-label') ?? ''"
        return re.match(r"Client traffic: in [1-9].*B/s", console.script(label)) is not None

    console.eventually(is_drawn, "the traffic is not drawn")


def test_every_node_shows_its_own_id(console: ConsolePage, cluster: Cluster) -> None:
    for node_id, url in enumerate(cluster.rest_urls):
        other = ConsolePage(console.driver, url)
        other.load("#/quorum")
        other.sees(f"node {node_id}", f"cluster {cluster.cluster_id}")
    console.load()


def test_the_quorum_shows_its_voters(console: ConsolePage, cluster: Cluster) -> None:
    console.open("#/quorum")

    console.sees("Metadata quorum", "every node is a voter")
    names_the_controller(console, cluster)
    roles = {node_id: console.cells_of(str(node_id))[1:3] for node_id in cluster.node_ids}
    assert sorted(role for role, _ in roles.values()) == ["follower", "follower", "leader"]
    assert all(log_end.replace(",", "").isdigit() for _, log_end in roles.values())


def test_voters_without_a_vote_say_why(console: ConsolePage, cluster: Cluster) -> None:
    console.load("#/brokers")
    console.script(
        """
        const ask = window.fetch;
        window.fetch = async (where, ...more) => {
          const answer = await ask(where, ...more);
          if (!String(where).includes("/v1/quorum")) return answer;
          const body = await answer.json();
          const [old, copied] = body.voters.filter((one) => one.node !== body.leader);
          old.is_disk_old = true;
          copied.is_disk_copied = true;
          return new Response(JSON.stringify(body), { status: answer.status, headers: answer.headers });
        };
        """
    )

    console.open("#/quorum")

    console.sees("Metadata quorum", "no vote: old disk", "no vote yet: copied disk")
    roles = sorted(console.cells_of(str(node_id))[1] for node_id in cluster.node_ids)
    assert roles == ["leader", "no vote yet: copied disk", "no vote: old disk"]
    console.load()


def test_a_broker_is_drained_and_returned_to_service(console: ConsolePage, cluster: Cluster) -> None:
    topic = make_topic(cluster, "led", partitions=6)
    console.open("#/brokers/2")
    console.sees("Drain…")
    assert "End the drain" not in console.text()
    console.click("Drain…")
    console.sees("Other brokers become the leaders of its partitions")
    console.click("Drain")
    console.sees("moved.")

    console.open("#/brokers")
    console.eventually(lambda: console.cells_of("2")[4] == "0", "it still leads")
    assert 2 not in {cluster.leader_of(topic, one) for one in range(6)}

    console.open("#/brokers/2")
    console.sees("drained")
    console.click("End the drain")
    console.sees("moved.")
    console.waits_until_gone("End the drain")
    console.open("#/brokers")
    console.eventually(lambda: int(console.cells_of("2")[4]) > 0, "it leads nothing")


def test_the_reason_why_a_broker_cannot_leave_is_shown(console: ConsolePage) -> None:
    console.open("#/brokers/1")

    console.click("Decommission…")

    console.sees("is a voter of the metadata quorum")


def test_log_directories_and_configs_of_a_broker_are_shown_and_changed(console: ConsolePage) -> None:
    console.open("#/brokers/1")

    directory = console.cells("node-1")
    assert directory[0].endswith("node-1") and directory[4].endswith("iB")
    console.fill("Search", "log.cleaner.threads")
    console.click("Change log.cleaner.threads")
    console.fill("Value for broker 1", "2")
    console.click("Set")
    console.sees("log.cleaner.threads of broker 1 is set to 2.")
    console.row("log.cleaner.threads", "this broker")

    console.click("Reset log.cleaner.threads")
    console.click("Reset")
    console.sees("log.cleaner.threads of broker 1 is reset to its default.")


def test_fixed_settings_have_no_button(console: ConsolePage) -> None:
    console.open("#/brokers/0")
    console.fill("Search", "log.dirs")

    assert "read-only" in console.row("log.dirs").text


def test_a_moving_partition_shows_progress_and_can_be_cancelled(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = name_of("moves")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    # The first fetch is not throttled; the rest, at some bytes a second, takes longer than the test.
    throttled = {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"}
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[0]], config=throttled)])[topic].result(
        TIMEOUT_S
    )
    fill(producer, topic, *(b"x" * 100_000 for _ in range(60)))
    for broker in ("0", "1"):
        console.open(f"#/brokers/{broker}")
        kind = "leader" if broker == "0" else "follower"
        console.fill("Search", f"{kind}.replication.throttled.rate")
        console.click(f"Change {kind}.replication.throttled.rate")
        console.fill(f"Value for broker {broker}", "10")
        console.click("Set")
        console.sees(f"of broker {broker} is set to 10.")

    console.open("#/reassignments")
    console.move(topic, 0, 1)
    console.row(topic, "%", "left")

    console.click(f"Stop the move of {topic}, partition 0")
    console.click("Stop the move")
    console.sees("The move is stopped.")
    console.sees("No moves are under way.")
    for broker, kind in (("0", "leader"), ("1", "follower")):
        console.open(f"#/brokers/{broker}")
        console.fill("Search", f"{kind}.replication.throttled.rate")
        console.click(f"Reset {kind}.replication.throttled.rate")
        console.click("Reset")
        console.sees("is reset to its default.")

    console.open("#/reassignments")
    console.move(topic, 0, 2)
    console.open(f"#/topics/{topic}")
    console.eventually(lambda: console.cells_of("0")[2] == "2", "it does not move")


def test_the_overview_shows_problems_while_a_node_is_down(console: ConsolePage, cluster: Cluster) -> None:
    # A capital sorts first: the overview names only the first of many partitions.
    topic = make_topic(cluster, "Wounded")
    single = name_of("lone")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(single, 1, replica_assignment=[[2]])])[single].result(TIMEOUT_S)
    guarded = name_of("guarded")
    needs_both = NewTopic(guarded, 1, replica_assignment=[[0, 2]], config={"min.insync.replicas": "2"})
    admin.create_topics([needs_both])[guarded].result(TIMEOUT_S)
    console.open("#/")
    console.sees("All is well.")

    cluster.kill(2)
    try:
        console.sees("under-replicated.", "2 of 3 brokers running", "it is behind, or its broker is down.")
        console.sees(f"{topic}-0")
        assert console.cells_of("2")[1] == "fenced"
        console.click("See what the doctor finds")
        console.eventually(lambda: console.title() == "Doctor", "the page is not shown")
        console.sees("problem", "Broker", "does not")
        console.open("#/brokers/2")
        console.sees("This broker is down")
        console.waits_until_gone("Log directories")
        assert (console.fact("State"), console.fact("In sync")) == ("fenced", "0")
        console.open("#/")
        console.click(f"{topic}-0")
        console.sees("1 partition under-replicated", "2 behind")
        console.open(f"#/topics/{guarded}")
        console.sees("2 eligible")
        console.open("#/")
        console.sees("without a leader", f"{single}-0")

        # The replica is moved to another broker, but has no source to copy from: it would start empty.
        console.open("#/reassignments")
        console.move(single, 0, 1, 2)
        console.open(f"#/topics/{single}")
        console.click("Unclean leader election…")
        console.sees("are lost, although they were acknowledged")
        console.click("Elect and lose records")
        console.sees("1 leader moved.")
        console.eventually(lambda: console.cells_of("0")[1] == "1", "broker 1 does not lead it")
    finally:
        cluster.restart(2)
    console.sees("all replicas")
    console.open("#/")
    console.sees("All is well.", "3 of 3 brokers running")
