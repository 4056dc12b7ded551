"""Topics in the console: made, searched, looked into, changed, deleted."""

import pytest
from confluent_kafka import Producer

from ottla.node.embedded import Cluster
from tests.console.console_page import ConsolePage
from tests.console.makers import commit, make_topic, name_of

pytestmark = pytest.mark.slow


def test_a_topic_is_made_and_deleted(console: ConsolePage, cluster: Cluster) -> None:
    make_topic(cluster, "another")
    name = name_of("orders")
    console.open("#/topics")

    console.click("Create a topic…")
    console.fill("Name", name)
    console.fill("Partitions", "4")
    console.fill("Replication factor", "3")
    console.fill("Configs", "retention.ms=86400000")
    console.click("Validate only")
    console.sees(f"Topic {name} can be created with these values.")
    console.click("Create")

    console.sees(f"Topic {name} is created.")
    assert console.title() == name
    assert console.fact("Partitions") == "4"
    console.row("3")

    console.click("Delete…")
    console.sees("All records of", "cannot be brought back")
    console.click("Cancel")
    console.misses("cannot be brought back")
    console.click("Delete…")
    console.click("Delete the topic")

    console.sees(f"Topic {name} is deleted.")
    console.fill("Search", name)
    console.sees("No topic name contains this text.")


def test_what_the_cluster_refuses_is_told_in_the_form(console: ConsolePage) -> None:
    console.open("#/topics")
    console.click("Create a topic…")
    console.fill("Name", "no topic/is called so")
    console.click("Create")
    assert "name" in console.eventually(console.problem, "no reason is told").lower()

    console.fill("Partitions", "many")
    console.click("Create")
    console.sees("Partitions must be a whole number of at least 1.")
    console.click("Cancel")


def test_the_search_finds_by_part_of_a_name(console: ConsolePage, cluster: Cluster) -> None:
    name = make_topic(cluster, "needle")
    other = make_topic(cluster, "hay")
    console.open("#/topics")
    console.sees(name, other)

    console.fill("Search", name[2:].upper())
    console.misses(other)
    console.click(name)

    assert console.title() == name


def test_internal_topics_are_shown_when_asked_for(console: ConsolePage, cluster: Cluster) -> None:
    topic = make_topic(cluster, "some")
    commit(cluster, name_of("somebody"), topic, 0)
    console.open("#/topics")
    console.sees(topic)
    assert "__consumer_offsets" not in console.text()

    console.click("show internal topics")

    console.sees("__consumer_offsets", "internal")


def test_partitions_show_leader_replicas_offsets_and_size(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "looked-at", partitions=2)
    for _ in range(7):
        producer.produce(topic, b"x" * 1000, partition=1)
    producer.flush()

    console.open(f"#/topics/{topic}")

    console.sees("all replicas")
    console.eventually(lambda: console.cells("KiB")[5] == "7", "the end offset is not 7")
    partition, leader, replicas, isr, first, end, size = console.cells("KiB")[:7]
    assert (partition, int(leader)) == ("1", cluster.leader_of(topic, 1))
    assert sorted(replicas.split(", ")) == sorted(isr.split(", ")) == ["0", "1", "2"]
    assert (first, end) == ("0", "7") and 6.8 < float(size.removesuffix(" KiB")) < 8
    assert console.fact("Offsets in use") == "7"


def test_another_replica_is_given_the_lead(console: ConsolePage, cluster: Cluster) -> None:
    topic = make_topic(cluster, "handed-on")
    before = cluster.leader_of(topic, 0)
    wanted = (before + 1) % 3
    console.open(f"#/topics/{topic}")

    console.click("Transfer the leadership of partition 0")
    console.sees("no data is copied")
    console.choose("Broker", f"broker {wanted}")
    console.click("Transfer leadership")

    console.sees("1 leader moved.")
    console.eventually(lambda: console.cells_of("0")[1] == str(wanted), "it does not lead")
    assert console.cells_of("0")[2].split(", ")[0] == str(wanted)


def test_preferred_leaders_are_elected(console: ConsolePage, cluster: Cluster) -> None:
    topic = make_topic(cluster, "elected")
    first = cluster.leader_of(topic, 0)
    second, third = (one for one in cluster.node_ids if one != first)
    order = f"{second},{first},{third}"  # another one is preferred now, and nobody has been elected
    console.open("#/reassignments")
    console.fill("Topic", topic)
    console.fill("Partition", "0")
    console.fill("Brokers", order)
    console.click("Move…")
    console.click("Move it")

    console.open(f"#/topics/{topic}")
    console.sees("not led by the preferred leader")
    console.click("Elect preferred leaders")

    console.sees("1 leader moved.")
    console.eventually(lambda: console.cells_of("0")[1] == str(second), "it does not lead")
    console.misses("not led by the preferred leader")


def test_partitions_are_added_after_one_question(console: ConsolePage, cluster: Cluster) -> None:
    topic = make_topic(cluster, "grows", partitions=1)
    console.open(f"#/topics/{topic}")

    console.fill("New number of partitions", "3")
    console.click("Add partitions…")
    console.sees("cannot be removed again")
    console.click("Add the partitions")

    console.sees(f"{topic} has 3 partitions.")
    console.eventually(lambda: console.fact("Partitions") == "3", "the page still shows one")


def test_a_config_is_set_and_taken_back(console: ConsolePage, cluster: Cluster) -> None:
    topic = make_topic(cluster, "configured")
    console.open(f"#/topics/{topic}/configs")
    console.fill("Search", "retention.ms")
    console.sees("604800000")
    assert "default" in console.cells("604800000")

    console.click("Change retention.ms")
    console.fill(f"Value for topic {topic}", "soon")
    console.click("Set")
    console.eventually(console.problem, "no reason is told")
    console.fill(f"Value for topic {topic}", "3600000")
    console.click("Set")
    console.sees(f"retention.ms of topic {topic} is set to 3600000.")
    console.row("3600000", "this topic")

    console.click("Reset retention.ms")
    console.click("Reset")
    console.sees(f"retention.ms of topic {topic} is reset to its default.")
    console.row("604800000", "default")


def test_configs_come_with_their_documentation(console: ConsolePage, cluster: Cluster) -> None:
    topic = make_topic(cluster, "documented")
    console.open(f"#/topics/{topic}/configs")
    console.sees("cleanup.policy")

    missing = console.script(
        "return [...document.querySelectorAll('tbody tr')].filter((row) => !row.querySelector('.doc')).length"
    )

    assert missing == 0
    console.click("only changed settings")
    console.misses("cleanup.policy")
    console.row("file.delete.delay.ms", "the broker's file")
