"""Hostile names and bytes that look like markup: they are shown as text and have no effect."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from ottla.node.embedded import Cluster
from tests.console.console_page import ConsolePage
from tests.console.makers import commit, fill, make_topic
from tests.integration.cluster.conftest import eventually
from tests.integration.rest.conftest import name_of

pytestmark = pytest.mark.slow

IMAGE = "<img src=x onerror=\"window.hacked='image'\">"
SCRIPT = "</code></td><script>window.hacked='script'</script>"
MARKUP = "<b>bold</b><iframe>"
LINK = "javascript:window.hacked='link'"
BACKWARDS = "abc\u202edcba\u2066\u200b\u0007"
SEEN_BACKWARDS = "abc\\u202edcba\\u2066\\u200b\\u0007"
FOREIGN = "main img, main script, main iframe, main [onerror], main [onclick], dialog img, dialog script"


@pytest.fixture
def hostile(console: ConsolePage) -> Iterator[ConsolePage]:
    """Yield the console, and check afterwards that no text became an element."""
    yield console
    assert console.script("return document.querySelectorAll(arguments[0]).length", FOREIGN) == 0


def test_a_record_is_shown_and_does_nothing(
    hostile: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "hostile")
    producer.produce(topic, IMAGE, key=SCRIPT, headers=[(IMAGE, SCRIPT.encode()), ("k", BACKWARDS.encode())])
    fill(producer, topic, (BACKWARDS.replace("\u0007", "") + " end").encode())
    fill(producer, topic, f'{{"{IMAGE[:4]}": "{LINK}"}}'.encode(), b"\xff\xfe<b>", b"")
    hostile.open(f"#/topics/{topic}/records")

    hostile.sees(IMAGE, SCRIPT, LINK, "abc\\u202edcba\\u2066\\u200b end", "ff fe 3c 62 3e", "empty")
    hostile.click("Show offset 0 of partition 0")
    hostile.sees("Headers")
    assert hostile.cells_of(IMAGE) == [IMAGE, SCRIPT]


def test_a_live_tail_shows_hostile_records_as_text(
    hostile: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "hostile-live")
    hostile.open(f"#/topics/{topic}/records")
    hostile.sees("No records found.")
    hostile.click("Live tail")

    def comes() -> bool:
        fill(producer, topic, IMAGE.encode(), f"\ndata: {IMAGE}\n\nevent: error\ndata: x\n\n".encode())
        return IMAGE in hostile.text() and "event: error" in hostile.text()

    hostile.eventually(comes, "the records are not shown")
    hostile.click("Stop")


def test_hostile_names_of_groups_and_clients_are_shown_as_text(
    hostile: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic, group = make_topic(cluster, "hostile-group"), f"{name_of('g')}/../{IMAGE}?#%2f"
    fill(producer, topic, b"x")
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "client.id": SCRIPT,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.1) is not None, "the member reads")
    hostile.open("#/groups")
    hostile.fill("Search", group)
    hostile.click(group)

    assert hostile.title() == group
    hostile.eventually(lambda: SCRIPT in hostile.row(topic).text, "the client is not shown")
    hostile.sees("took ")
    consumer.close()


def test_a_transactional_id_is_one_segment_of_a_url(hostile: ConsolePage, cluster: Cluster) -> None:
    transactional_id = f"{name_of('t')}/{IMAGE}#?&"
    Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id}
    ).init_transactions()
    hostile.open("#/transactions")
    hostile.fill("Search", transactional_id)

    hostile.click(transactional_id)

    assert hostile.title() == transactional_id
    hostile.eventually(lambda: hostile.fact("State") == "Empty", "it is not found")


def test_an_error_that_repeats_the_input_is_shown_as_text(hostile: ConsolePage) -> None:
    hostile.open("#/topics")
    hostile.click("Create a topic…")
    hostile.fill("Name", name_of("t"))
    hostile.fill("Configs", f"{MARKUP}=1")
    hostile.click("Create")

    hostile.sees(MARKUP)


@pytest.mark.parametrize(
    "address", [f"#/topics/{IMAGE}", "#/topics/%", f"#/groups/{SCRIPT}", f"#/{LINK}", "#//x"]
)
def test_a_hostile_url_does_nothing(hostile: ConsolePage, address: str) -> None:
    hostile.load(address)

    assert hostile.title()
    hostile.eventually(
        lambda: hostile.script("return !document.querySelector('[aria-busy]')"), "the page stays empty"
    )
    hostile.errors()  # the browser reports the 404
    hostile.open("#/quorum")


def test_control_characters_in_a_name_are_shown_as_escapes(hostile: ConsolePage, cluster: Cluster) -> None:
    topic, group = make_topic(cluster, "hostile-plan"), f"{name_of('g')} {BACKWARDS}"
    commit(cluster, group, topic, 0)

    hostile.open("#/groups")
    hostile.fill("Search", group[:10])

    hostile.sees(SEEN_BACKWARDS)
