"""Topics in the console: created, searched, shown, changed, deleted."""

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.node.embedded import Cluster
from tests.console.console_page import ConsolePage
from tests.console.makers import commit, fill, make_topic
from tests.integration.rest.conftest import name_of

pytestmark = pytest.mark.slow


def test_a_topic_is_created_and_deleted(console: ConsolePage, cluster: Cluster) -> None:
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
    console.waits_until_gone("cannot be brought back")
    console.click("Delete…")
    console.click("Delete the topic")

    console.sees(f"Topic {name} is deleted.")
    console.fill("Search", name)
    console.sees("No topic name contains this text.")


def test_an_error_of_the_cluster_is_shown_in_the_form(console: ConsolePage) -> None:
    console.open("#/topics")
    console.click("Create a topic…")
    console.fill("Name", "no topic/is called so")
    console.click("Create")
    assert "name" in console.eventually(console.problem, "no reason is shown").lower()

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
    console.waits_until_gone(other)
    console.click(name)

    console.eventually(lambda: console.title() == name, "the topic is not shown")


def test_internal_topics_are_shown_on_request(console: ConsolePage, cluster: Cluster) -> None:
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


def test_leadership_is_moved_to_another_replica(console: ConsolePage, cluster: Cluster) -> None:
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
    console.open("#/reassignments")
    console.move(topic, 0, second, first, third)  # changes the preferred leader, without an election

    console.open(f"#/topics/{topic}")
    console.sees("not led by the preferred leader")
    console.click("Elect preferred leaders")

    console.sees("1 leader moved.")
    console.eventually(lambda: console.cells_of("0")[1] == str(second), "it does not lead")
    console.waits_until_gone("not led by the preferred leader")


def test_partitions_are_added_after_confirmation(console: ConsolePage, cluster: Cluster) -> None:
    topic = make_topic(cluster, "grows", partitions=1)
    console.open(f"#/topics/{topic}")

    console.fill("New number of partitions", "3")
    console.click("Add partitions…")
    console.sees("cannot be removed again")
    console.click("Add the partitions")

    console.sees(f"{topic} has 3 partitions.")
    console.eventually(lambda: console.fact("Partitions") == "3", "the page still shows one")


def test_a_config_is_set_and_reset(console: ConsolePage, cluster: Cluster) -> None:
    topic = make_topic(cluster, "configured")
    console.open(f"#/topics/{topic}/configs")
    console.fill("Search", "retention.ms")
    console.sees("604800000")
    assert "default" in console.cells("604800000")

    console.click("Change retention.ms")
    console.fill(f"Value for topic {topic}", "soon")
    console.click("Set")
    console.eventually(console.problem, "no reason is shown")
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
    console.waits_until_gone("cleanup.policy")
    console.row("file.delete.delay.ms", "the broker's file")


def test_topics_are_in_natural_order_with_their_contents(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    stem = name_of("counted")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    names = [f"{stem}-{number}" for number in (10, 2, 1)]
    for name in names:
        admin.create_topics([NewTopic(name, 1, 3, config={"retention.ms": "3600000"})])[name].result(60)
    fill(producer, names[1], *[b"x" * 1000] * 4)
    commit(cluster, name_of("reader"), names[1], 1)
    console.open("#/topics")
    console.fill("Search", stem)
    console.sees("3 of ")

    console.eventually(lambda: console.cells_of(names[1])[3] == "4", "the records are not counted")
    console.eventually(lambda: "1 group" in console.cells_of(names[1])[7], "the group is not shown")
    cells = console.cells_of(names[1])
    assert cells[1:3] == ["1", "3"] and cells[5].endswith("KiB") and cells[6] == "60 min"
    console.eventually(lambda: console.cells_of(names[1])[4] == "0/s", "no rate is shown")
    shown = console.script("return [...document.querySelectorAll('tbody th a')].map((one) => one.innerText)")
    assert shown == sorted(names, key=lambda name: int(name.rpartition("-")[2]))
    assert f"search={stem}" in console.script("return location.hash")


def test_a_topic_shows_its_groups_and_its_producers(console: ConsolePage, cluster: Cluster) -> None:
    topic, group = make_topic(cluster, "used"), name_of("reader")
    fill(
        Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True}),
        topic,
        b"1",
        b"2",
        b"3",
    )
    commit(cluster, group, topic, 1)
    console.open(f"#/topics/{topic}/clients")

    console.eventually(lambda: console.cells_of(group)[3] == "2", "the lag is not shown")
    assert console.cells_of(group)[1] == "Empty"
    cells = console.cells("none")
    assert (cells[1], cells[3]) == ("0", "2")


def test_an_unknown_topic_offers_to_create_it_and_nothing_else(
    console: ConsolePage, cluster: Cluster
) -> None:
    make_topic(cluster, "another")
    name = name_of("unknown")
    for page in ("", "/records", "/produce", "/clients", "/configs"):
        console.open(f"#/topics/{name}{page}")
        console.sees(f"There is no topic {name}.")
        buttons = console.script(
            "return [...document.querySelectorAll('main button')].map((one) => one.innerText)"
        )
        assert buttons == ["Create it…"] and not console.script(
            "return document.querySelectorAll('form').length"
        )
    console.open(f"#/topics/{name}")
    console.sees(f"There is no topic {name}.")

    console.click("Create it…")
    assert console.field("Name").get_attribute("value") == name
    console.click("Create")

    console.sees(f"Topic {name} is created.", "all replicas")
    console.errors()  # the browser reports the 404s before its creation


def test_configs_are_grouped_and_changed_ones_come_first(console: ConsolePage, cluster: Cluster) -> None:
    name = name_of("grouped")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(name, 1, 3, config={"retention.ms": "3600000"})
    admin.create_topics([new])[name].result(60)
    console.open(f"#/topics/{name}/configs")
    console.row("retention.ms", "3600000")

    headings = console.script("return [...document.querySelectorAll('h3')].map((one) => one.innerText)")

    assert headings[:1] == ["Changed"] and {"Retention and compaction", "Replication"} <= set(headings)
    first = console.script("return document.querySelector('.part').innerText")
    assert "retention.ms" in first and "segment.bytes" not in first
