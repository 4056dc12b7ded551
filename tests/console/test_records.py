"""Records in the console: read from any offset, filtered, followed, shown in full, and produced."""

import csv
import io
import json

import pytest
from confluent_kafka import Producer
from selenium.webdriver.common.keys import Keys

from ottla.node.embedded import Cluster
from tests.console.console_page import ConsolePage
from tests.console.makers import fill, make_topic
from tests.console.test_every_page import COLOURS, contrast

pytestmark = pytest.mark.slow

LARGE = 12345678901234567890  # beyond the integers that a JavaScript number represents exactly


def test_records_are_read_from_the_end_the_beginning_and_an_offset(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "read")
    fill(producer, topic, *(f"value-{i}.".encode() for i in range(30)))
    console.open(f"#/topics/{topic}/records")
    console.sees("value-29.", "30 records")

    console.fill("Maximum records", "5")
    console.click("Read")
    console.sees("5 records", "value-25.")
    assert "value-24." not in console.text()

    console.choose("From", "oldest")
    console.click("Read")
    console.sees("value-0.")
    assert "value-29." not in console.text()

    console.choose("From", "offset")
    console.fill("Offset", "12")
    console.click("Read")
    console.sees("value-12.", "value-16.")
    assert "value-11." not in console.text() and "value-17." not in console.text()


def test_records_are_found_by_time_and_by_text(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "found")
    for i in range(10):
        producer.produce(
            topic, f"apple {i}" if i % 2 else f"pear {i}", timestamp=1_600_000_000_000 + i * 60_000
        )
    producer.flush()
    console.open(f"#/topics/{topic}/records")
    console.sees("10 records")

    console.fill("Filter", "apple")
    console.click("Read")
    console.sees("5 records", "apple 9")
    assert "pear" not in console.text()

    console.choose("From", "time")
    console.script(
        """
        const at = new Date(1600000000000 + 5 * 60000);
        const local = new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 23);
        document.querySelector("input[name=at]").value = local;
        """
    )
    console.click("Read")
    console.sees("3 records", "apple 5")
    assert "apple 3" not in console.text()


def test_a_single_partition_can_be_read(console: ConsolePage, cluster: Cluster, producer: Producer) -> None:
    topic = make_topic(cluster, "parted", partitions=2)
    fill(producer, topic, b"in zero", partition=0)
    fill(producer, topic, b"in one", partition=1)
    console.open(f"#/topics/{topic}/records")
    console.sees("in zero", "in one")

    console.choose("Partition", "1")
    console.click("Read")

    console.waits_until_gone("in zero")
    console.sees("in one")


def test_json_keeps_its_digits_and_bytes_are_shown_in_hex(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "shown")
    value = json.dumps({"id": LARGE, "tags": [], "of": {"a": [1.10, True]}}).replace("1.1,", "1.10,")
    producer.produce(topic, value, key=b"\x00\xff", headers=[("trace", b"abc"), ("none", None)])
    producer.flush()
    console.open(f"#/topics/{topic}/records")

    console.click("Show offset 0 of partition 0")

    console.sees(f'{{\n  "id": {LARGE},\n  "tags": [],', "    1.10,\n", "00000000  00 ff", "|..|")
    assert console.cells_of("trace") == ["trace", "abc"] and console.cells_of("none") == ["none", "null"]
    console.click("Close")
    console.waits_until_gone("00000000  00 ff")


def test_a_live_tail_shows_new_records(console: ConsolePage, cluster: Cluster, producer: Producer) -> None:
    topic = make_topic(cluster, "live")
    fill(producer, topic, b"before")
    console.open(f"#/topics/{topic}/records")
    console.sees("before")

    console.click("Live tail")
    console.sees("Live, newest first")
    console.waits_until_gone("before")
    fill(producer, topic, b"until it follows")
    console.eventually(lambda: _comes(console, producer, topic, "first"), "no record appears")
    fill(producer, topic, b"second")
    console.sees("second")

    console.click("Stop")
    fill(producer, topic, b"unseen")
    console.click("Read")
    console.sees("unseen", "before")


def _comes(console: ConsolePage, producer: Producer, topic: str, text: str) -> bool:
    """Produce a record; return True if one is shown, since the tail starts a moment after its request."""
    fill(producer, topic, text.encode())
    return text in console.text()


def test_a_record_is_produced_from_the_form(console: ConsolePage, cluster: Cluster) -> None:
    topic = make_topic(cluster, "made", partitions=2)
    console.open(f"#/topics/{topic}/produce")

    console.choose("Partition", "1")
    console.sees("Key type", "Value type")
    assert "Key" not in console.text().splitlines()  # a text would not be sent with the type null
    console.choose("Key type", "text")
    console.fill("Key", "a key")
    console.choose("Value type", "JSON")
    console.fill("Value", '{"id": ')
    console.click("Produce")
    console.sees("Value is not valid JSON.")
    console.fill("Value", f'{{"id": {LARGE}}}')
    console.click("Add a header")
    console.keys("origin")
    console.script("document.querySelector('input[name=header-value]').focus()")
    console.keys("by hand")
    console.click("Produce")

    console.sees("The record was written to partition 1, offset 0.")
    console.click("Show it")
    console.sees("Record at offset 0 of partition 1", "a key", f'{{"id": {LARGE}}}')
    assert console.cells_of("origin") == ["origin", "by hand"]


def test_a_record_that_was_not_stored_is_reported(console: ConsolePage, cluster: Cluster) -> None:
    topic = make_topic(cluster, "refused")
    console.open(f"#/topics/{topic}/produce")

    console.script("document.querySelector('select[name=partition]').append(new Option('7', '7'))")
    console.choose("Partition", "7")
    console.fill("Value", "nowhere")
    console.click("Produce")

    console.sees("Partition not found.")
    assert "it is in the log" not in console.text()


def test_base64_gives_bytes_and_null_gives_no_value(console: ConsolePage, cluster: Cluster) -> None:
    topic = make_topic(cluster, "binary")
    console.open(f"#/topics/{topic}/produce")

    console.choose("Value type", "base64")
    console.fill("Value", "no base64!")
    console.click("Produce")
    console.sees("Value is not valid base64.")
    console.fill("Value", "/wB/")
    console.click("Produce")
    console.sees("offset 0.")
    console.choose("Value type", "null")
    console.click("Produce")
    console.sees("offset 1.")

    console.open(f"#/topics/{topic}/records")
    console.sees("ff 00 7f", "null")


def test_the_newest_large_records_are_found(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "large")
    fill(producer, topic, *(f"large-{i}.".encode() + b"x" * 300_000 for i in range(30)))

    console.open(f"#/topics/{topic}/records")

    console.sees("large-29.", "large-0.", "30 records, the newest first")


def test_the_newest_matches_of_a_filter_are_searched_back_to_the_oldest_record(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "searched")
    fill(producer, topic, b"needle-0", *[b"hay"] * 6_000, b"needle-1", *[b"hay"] * 1_500)
    console.open(f"#/topics/{topic}/records")
    console.sees("50 records, the newest first")

    console.fill("Filter", "needle")
    console.fill("Maximum records", "1")
    console.click("Read")
    console.sees("needle-1", "1 record, the newest first; searched back to offset 4,502 of partition 0.")
    console.waits_until_gone("needle-0")
    console.click("Continue searching")

    console.sees("needle-0", "needle-1", "2 records, the newest first; searched back to the oldest record.")


def test_the_newest_records_are_by_time_over_all_partitions(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "uneven", 2)
    producer.produce(topic, b"needle-old", partition=1, timestamp=1_000)
    producer.produce(topic, b"needle-new", partition=0, timestamp=2_000)
    for _ in range(4_000):
        producer.produce(topic, b"hay", partition=0, timestamp=3_000)
    assert producer.flush() == 0
    console.open(f"#/topics/{topic}/records")
    console.sees("50 records, the newest first")

    console.fill("Filter", "needle")
    console.fill("Maximum records", "1")
    console.click("Read")

    console.sees("needle-new", "the newest first; searched back to the oldest record.")


def test_a_live_tail_draws_records_that_arrive_together_at_once(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "burst")
    console.open(f"#/topics/{topic}/records")
    console.sees("0 records")
    console.click("Live tail")
    console.eventually(lambda: _comes(console, producer, topic, "follows"), "no record appears")
    console.script(
        """
        window.drawn = 0;
        new MutationObserver((changes) => { window.drawn += changes.length; })
          .observe(document.querySelector(".live [role=status]"), { characterData: true, subtree: true });
        """
    )

    fill(producer, topic, *(f"burst-{i}.".encode() for i in range(400)))

    console.sees("burst-399.")
    assert console.script("return window.drawn") < 200


def test_a_row_opens_by_a_click_and_by_keyboard_and_leads_to_the_next(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "opened")
    producer.produce(topic, b"older", key=b"k", headers=[("trace", b"abc")], timestamp=1_600_000_000_000)
    producer.produce(topic, b"newer", timestamp=1_600_000_060_000)
    producer.flush()
    console.open(f"#/topics/{topic}/records")

    console.row("newer").find_element("css selector", "td:last-child").click()
    console.sees("Record at offset 1 of partition 0")
    console.click("Next")
    console.sees("Record at offset 0 of partition 0")
    assert console.fact("Time in UTC") == "2020-09-13 12:26:40.000"
    assert console.fact("Key") == "1 B" and console.fact("Headers") == "1, 8 B"
    console.click("Close")
    console.waits_until_gone("Record at")

    older, newer = (f"Show offset {offset} of partition 0" for offset in (0, 1))
    console.eventually(lambda: console.focused() == older, "the focus is not on the record that was open")
    console.keys(Keys.ARROW_UP)
    assert console.focused() == newer
    console.keys(Keys.ENTER)
    console.sees("Record at offset 1 of partition 0")
    console.keys(Keys.ESCAPE)
    console.waits_until_gone("Record at")
    console.eventually(lambda: console.focused() == newer, "the focus is lost")


def test_json_is_coloured_and_folded_and_its_escapes_are_decoded(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "coloured")
    value = r'{"name": "Zo\u00eb \u202e", "list": [1, null, {"deep": true}]}'
    fill(producer, topic, value.encode())
    console.open(f"#/topics/{topic}/records")
    console.sees('{"name": "Zoë')
    console.click("Show offset 0 of partition 0")

    console.sees(r'"name": "Zoë \u202e"', '\n      "deep": true')
    console.click("List of 3 elements")
    console.waits_until_gone('\n      "deep": true')
    console.sees('"list": [ … 3 elements ]')
    console.click("List of 3 elements")
    console.sees('\n      "deep": true')
    for kind in ("json-name", "json-text", "json-number", "json-word"):
        assert console.script("return document.querySelectorAll(arguments[0]).length", f"dialog .{kind}")
    for _, one, other in console.script(COLOURS):
        assert contrast(one, other) >= 4.5

    console.click("Text")
    console.sees(value)


def test_json_of_thousands_of_levels_is_shown(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "deep")
    fill(producer, topic, b"[" * 5_000 + b"1,2" + b"]" * 5_000)
    console.open(f"#/topics/{topic}/records")

    console.click("Show offset 0 of partition 0")

    console.sees("Record at offset 0", "\n1")
    assert console.script("return document.querySelector('dialog pre').textContent.length") < 1_000_000


def test_an_address_shows_the_same_filter_page_and_record(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "linked", partitions=2)
    fill(producer, topic, *(f"apple-{i}.".encode() for i in range(8)), b"pear.")
    console.open(f"#/topics/{topic}/records")
    console.sees("9 records")
    console.choose("From", "oldest")
    console.choose("Partition", "0")
    console.fill("Filter", "apple")
    console.fill("Maximum records", "3")
    console.click("Read")
    console.sees("3 records")
    console.click("Show offset 2 of partition 0")
    address = console.script("return location.hash")

    console.load(address)
    console.sees("3 records", "Record at offset 2 of partition 0")
    assert "pear" not in console.text()
    console.click("Close")
    console.click("Read more")
    console.sees("apple-5.")
    console.load(console.script("return location.hash"))
    console.sees("apple-5.")
    assert "apple-2." not in console.text() and "Record at" not in console.text()
    assert console.field("Filter").get_attribute("value") == "apple"

    console.load(f"#/topics/{topic}/records?show=0:77")
    console.sees("There is no record at offset 77 of partition 0 any more.")


def test_shown_records_are_saved_as_json_and_csv_and_one_is_copied(
    console: ConsolePage, cluster: Cluster, producer: Producer
) -> None:
    topic = make_topic(cluster, "saved")
    producer.produce(topic, f'{{"id": {LARGE}}}', key="=HYPERLINK(1)", headers=[("h", b"\xff")])
    producer.produce(topic, b"\x00\xff", key=b'a "quoted", key')
    producer.flush()
    console.open(f"#/topics/{topic}/records")
    console.sees("2 records")
    console.script(
        """
        window.saved = {};
        URL.createObjectURL = (blob) => {
          blob.text().then((text) => { window.saved[blob.type] = text; });
          return "blob:x";
        };
        HTMLAnchorElement.prototype.click = function () { window.saved.name = this.download; };
        navigator.clipboard.writeText = async (text) => { window.copied = text; };
        """
    )

    console.click("Save as JSON")
    text = console.eventually(lambda: console.script("return saved['application/json']"), "no file is saved")
    by_offset = {one["offset"]: one for one in json.loads(text)}
    assert by_offset[0]["value"] == {"id": LARGE} and by_offset[0]["value_type"] == "json"
    assert by_offset[0]["headers"] == [{"name": "h", "value_type": "base64", "value": "/w=="}]
    assert (by_offset[1]["value_type"], by_offset[1]["value"]) == ("base64", "AP8=")
    assert console.script("return saved.name") == f"{topic}.json"

    console.click("Save as CSV")
    text = console.eventually(lambda: console.script("return saved['text/csv']"), "no file is saved")
    rows = {row["offset"]: row for row in csv.DictReader(io.StringIO(text))}
    assert rows["0"]["key"] == "'=HYPERLINK(1)" and rows["1"]["key"] == 'a "quoted", key'
    assert rows["0"]["value"] == f'{{"id": {LARGE}}}'

    console.click("Show offset 0 of partition 0")
    console.click("Copy as JSON")
    console.sees("The record is copied.")
    assert json.loads(console.script("return copied"))["value"] == {"id": LARGE}
    console.click("Copy link")
    link = console.eventually(lambda: _link(console), "no link is copied")
    console.load(link.removeprefix(f"{console.url}/"))
    console.sees("Record at offset 0 of partition 0")


def _link(console: ConsolePage) -> str:
    copied = str(console.script("return copied"))
    return copied if copied.startswith("http") else ""
