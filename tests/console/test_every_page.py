"""Properties of every page: keyboard, width of a phone, contrast, hidden tabs, nodes that are down."""

import re
import socket
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from ottla.node.embedded import Cluster
from tests.console.console_page import ConsolePage
from tests.console.makers import commit, fill, make_topic
from tests.integration.rest.conftest import name_of

pytestmark = pytest.mark.slow

PHONE_PX = 360
PAGES = (
    "#/",
    "#/topics",
    "#/topics/{topic}",
    "#/topics/{topic}/records",
    "#/topics/{topic}/produce",
    "#/topics/{topic}/clients",
    "#/topics/{topic}/configs",
    "#/groups",
    "#/groups/{group}",
    "#/groups/{group}/reset",
    "#/transactions",
    "#/transactions/hanging",
    "#/brokers",
    "#/brokers/0",
    "#/reassignments",
    "#/reassignments/balance",
    "#/reassignments/throttles",
    "#/quorum",
    "#/doctor",
    "#/nothing",
)
# For each visible text: the text, its colour, and the colour of its background.
COLOURS = """
const seen = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const ground = (one) => {
  for (; one; one = one.parentElement) {
    const colour = getComputedStyle(one).backgroundColor;
    if (!/, 0\\)$|transparent/.test(colour)) return colour;
  }
  return "rgb(255, 255, 255)";
};
while (walker.nextNode()) {
  const text = walker.currentNode, one = text.parentElement;
  if (!text.data.trim() || one.closest("[disabled], noscript")) continue;
  if (!one.checkVisibility({ visibilityProperty: true })) continue;
  seen.push([text.data.trim().slice(0, 40), getComputedStyle(one).color, ground(one)]);
}
for (const one of document.querySelectorAll("input, textarea, select")) {
  seen.push(["a field", getComputedStyle(one).color, ground(one)]);
  seen.push(["a placeholder", getComputedStyle(one, "::placeholder").color, ground(one)]);
}
return seen;
"""
# The words of tables that are broken over two lines, and the tables that are wider than their place.
# The values of settings are left out: they may be any text.
BROKEN = """
const found = [], range = document.createRange();
for (const table of document.querySelectorAll("main table")) {
  const walker = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    if (text.parentElement.closest(".unseen, .doc, code")) continue;
    for (const { 0: word, index } of text.data.matchAll(/\\p{L}+|\\p{N}+/gu)) {
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      const lines = [...range.getClientRects()].filter((one) => one.width > 0).map((one) => one.top);
      if (new Set(lines).size > 1) found.push(word);
    }
  }
  const place = table.parentElement;
  if (place.scrollWidth > place.clientWidth) found.push(table.caption.innerText);
}
return found;
"""


@pytest.fixture(scope="module")
def examples(cluster: Cluster, producer: object) -> dict[str, str]:
    """Create a topic with records, and a group with lag."""
    topic, group = make_topic(cluster, "any", partitions=2), name_of("any")
    fill(producer, topic, b'{"a": 1}', b"text " * 100, bytes(range(256)))  # type: ignore[arg-type]
    commit(cluster, group, topic, 1)
    return {"topic": topic, "group": group}


def luminance(colour: str) -> float:
    """Return the relative luminance (WCAG 2.2) of `rgb(r, g, b)`."""
    parts = [float(one) / 255 for one in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def is_drawn(console: ConsolePage) -> bool:
    """Return True if every part of the page has had its answer."""
    return bool(
        console.script("return !document.querySelector('[aria-busy]') && !!document.querySelector('h1')")
    )


def test_the_contrast_that_is_computed_is_that_of_the_guidelines() -> None:
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == 21
    assert contrast("rgb(119, 119, 119)", "rgb(255, 255, 255)") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_enough_contrast(console: ConsolePage, examples: dict[str, str], scheme: str) -> None:
    console.use_theme(scheme)
    for address in PAGES:
        console.open(address.format(**examples))
        console.eventually(lambda: is_drawn(console), f"{address} is not drawn")
        colours = console.script(COLOURS)
        weak = {
            (text, one, other, round(contrast(one, other), 2))
            for text, one, other in colours
            if contrast(one, other) < 4.5
        }

        assert len(colours) > 10 and not weak, address


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dialogs_and_their_buttons_have_enough_contrast_too(
    console: ConsolePage, examples: dict[str, str], scheme: str
) -> None:
    console.use_theme(scheme)
    console.open(f"#/topics/{examples['topic']}")
    console.click("Delete…")
    console.sees("cannot be brought back")
    for text, one, other in console.script(COLOURS):
        assert contrast(one, other) >= 4.5, text
    console.click("Cancel")


def test_the_colours_follow_the_system_until_the_user_chooses(console: ConsolePage) -> None:
    def ground() -> float:
        return luminance(console.script("return getComputedStyle(document.body).backgroundColor"))

    console.use_theme("dark")
    assert ground() < 0.05
    console.click("Light colours")
    assert ground() > 0.8

    console.load()
    console.eventually(lambda: ground() > 0.8, "the choice is not kept")
    console.script("localStorage.clear()")


def test_no_table_breaks_a_word_or_is_wider_than_its_page(
    console: ConsolePage, cluster: Cluster, examples: dict[str, str]
) -> None:
    make_topic(cluster, "events.of-a-warehouse.with-a-very-long-name.region-europe-central-1")
    for width in (1280, 1024, 800):
        console.resize(width)
        for address in PAGES:
            console.open(address.format(**examples))
            console.eventually(lambda: is_drawn(console), f"{address} is not drawn")

            assert console.script(BROKEN) == [], (address, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_a_phone(console: ConsolePage, examples: dict[str, str], scheme: str) -> None:
    console.use_theme(scheme)
    console.resize(PHONE_PX)
    for address in PAGES:
        console.open(address.format(**examples))
        console.eventually(lambda: is_drawn(console), f"{address} is not drawn")

        assert console.script("return document.scrollingElement.scrollWidth") <= PHONE_PX, address
        beyond = console.script(
            "return [...document.querySelectorAll('main *')].filter((one) => one.checkVisibility()"
            " && !one.closest('.unseen, thead, pre, svg')"
            " && one.getBoundingClientRect().right > innerWidth + 1)"
            ".map((one) => one.outerHTML.slice(0, 200))"
        )
        assert beyond == [], address


def test_on_a_phone_a_button_opens_the_list_of_pages(console: ConsolePage) -> None:
    console.resize(PHONE_PX)
    console.open("#/quorum")
    console.sees("Metadata quorum")

    console.click("Menu")
    console.click("Topics")

    console.eventually(lambda: console.title() == "Topics", "the page is not shown")
    assert console.script("return document.getElementById('menu').getAttribute('aria-expanded')") == "false"


def test_enter_does_not_confirm_a_dangerous_action(console: ConsolePage, examples: dict[str, str]) -> None:
    console.open(f"#/topics/{examples['topic']}")
    console.sees("all replicas")

    console.script("document.querySelector('.danger-quiet').focus()")
    console.keys(Keys.ENTER)
    console.sees("Delete topic")
    assert console.focused() == "Cancel"
    console.keys(Keys.ENTER)

    console.waits_until_gone("Delete topic")
    assert console.focused() == "Delete…"
    console.keys(Keys.ENTER)
    console.sees("Delete topic")
    console.keys(Keys.ESCAPE)
    console.waits_until_gone("Delete topic")
    assert console.title() == examples["topic"]


def test_the_keyboard_reaches_everything(console: ConsolePage, examples: dict[str, str]) -> None:
    console.load(f"#/topics/{examples['topic']}/records")
    console.sees("3 records")

    console.keys(Keys.TAB)
    assert console.focused() == "Skip to the page"
    seen = []
    for _ in range(60):
        console.keys(Keys.TAB)
        if console.script("return document.activeElement === document.body"):
            break
        name = console.focused()
        seen.append(name)
        assert console.script("return getComputedStyle(document.activeElement).outlineStyle") != "none", name

    assert {"Ottla", "Dark colours", "Overview", "Quorum", "Delete…", "Records", "Read", "Live tail"} <= set(
        seen
    )
    assert "Show offset 0 of partition 0" in seen


def test_the_skip_link_leads_to_the_page(console: ConsolePage) -> None:
    console.open("#/topics")
    console.sees("Create a topic…")
    console.script("document.querySelector('.skip').focus()")

    console.keys(Keys.ENTER)
    console.keys(Keys.TAB)

    assert console.focused() == "Create a topic…" and console.title() == "Topics"


def test_tables_are_tables_to_a_screen_reader_on_a_phone_too(
    console: ConsolePage, examples: dict[str, str]
) -> None:
    console.resize(PHONE_PX)
    console.open(f"#/topics/{examples['topic']}")
    console.sees("all replicas")

    tree = console.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    names = {
        (one["role"]["value"], one.get("name", {}).get("value", "")) for one in tree if not one["ignored"]
    }

    assert ("table", f"Partitions of {examples['topic']}") in names
    assert ("columnheader", "End offset") in names and ("rowheader", "Partition 1") in names
    assert "main" in {role for role, _ in names}


def test_focus_and_typed_text_survive_the_next_response(console: ConsolePage) -> None:
    console.open("#/brokers")
    console.sees("active")
    console.script("window.kept = document.querySelector('tbody a'); kept.focus()")
    entries = "performance.getEntriesByType('resource')"
    count_requests = f"return {entries}.filter((one) => one.name.includes('/v1/health')).length"
    before = console.script(count_requests)

    console.eventually(lambda: console.script(count_requests) >= before + 2, "there is no further request")

    assert console.script("return kept.isConnected && document.activeElement === kept")


def test_a_hidden_page_sends_no_requests(console: ConsolePage) -> None:
    count_requests = "return performance.getEntriesByType('resource').length"
    hide = (
        "window.isHidden = arguments[0];"
        "Object.defineProperty(document, 'hidden', { get: () => window.isHidden, configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange'));"
    )
    console.open("#/reassignments")
    console.sees("No moves are under way.")
    console.script(hide, True)
    # Requests under way end; no new ones start, though every part would ask three times in this time.
    console.driver.execute_async_script("setTimeout(arguments[0], 1500)")
    before = console.script(count_requests)
    console.driver.execute_async_script("setTimeout(arguments[0], 6000)")
    assert console.script(count_requests) == before

    console.script(hide, False)

    console.eventually(lambda: console.script(count_requests) > before, "requests do not resume")


def test_pages_load_nothing_from_other_hosts(console: ConsolePage, examples: dict[str, str]) -> None:
    for address in PAGES:
        console.open(address.format(**examples))
        console.eventually(lambda: is_drawn(console), f"{address} is not drawn")

    urls = console.script("return performance.getEntriesByType('resource').map((one) => one.name)")

    assert urls and all(url.startswith(console.url) for url in urls)


def test_a_page_shows_a_node_that_is_down_and_still_works(browser: webdriver.Chrome, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with Cluster(1, data=tmp_path / "one", overrides={"ottla.rest.listeners": url}) as cluster:
        page = ConsolePage(browser, url)
        page.resize(1280)
        page.load("#/brokers")
        page.sees("active")

        cluster.kill(0)
        page.sees(f"The node at 127.0.0.1:{port} has not answered since")
        page.sees("active")  # the old data stays
        cluster.restart(0)
        page.waits_until_gone("has not answered since")

        page.click("Topics")
        page.sees("There are no topics yet.")
        page.errors()  # the browser reports the failed requests
        page.load("#/")
        page.sees("All is well.")
        assert page.errors() == []
        browser.get("about:blank")


def test_a_request_that_hangs_fails_in_its_own_place_and_the_rest_is_drawn(
    console: ConsolePage, examples: dict[str, str]
) -> None:
    console.script(
        "const real = window.fetch;"
        "window.fetch = (where, options) => String(where).includes('/timeline')"
        " ? new Promise((_, fail) =>"
        " options.signal.addEventListener('abort', () => fail(options.signal.reason)))"
        " : real(where, options);"
    )
    console.open(f"#/groups/{examples['group']}")

    assert console.fact("State") == "Empty"
    console.row(examples["topic"])
    assert "does not answer" not in console.text()
    console.sees("The node took too long to answer this request.")
    assert console.fact("State") == "Empty"
    assert "does not answer" not in console.text()


def test_a_node_that_is_cut_off_says_so_on_every_page(browser: webdriver.Chrome) -> None:
    session = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "300"}
    with Cluster(3, rest=True, overrides=session) as cluster:
        page = ConsolePage(browser, cluster.rest_urls[0])
        page.resize(1280)
        page.load()
        page.sees("All is well.")

        cluster.kill(1)
        cluster.kill(2)

        page.sees("This node has been cut off from the metadata quorum since")
        page.eventually(lambda: page.fact("Controller") == "unknown", "a controller is shown")
        page.waits_until_gone("All is well.")
        page.sees("It is not known which brokers are running.")
        for address in PAGES:
            if "{" not in address:
                page.open(address)
                page.eventually(lambda: is_drawn(page), f"{address} is not drawn")
                page.sees("This page may be out of date, and the controller is unknown.")
        page.open("#/quorum")
        page.eventually(lambda: page.fact("Controller") == "unknown", "a leader is shown")
        browser.get("about:blank")
        page.errors()  # about the nodes that are down


def test_each_page_says_how_old_it_is_and_from_which_node(
    console: ConsolePage, examples: dict[str, str]
) -> None:
    for address in (
        "#/",
        "#/topics",
        "#/topics/{topic}/records",
        "#/groups/{group}",
        "#/brokers/0",
        "#/quorum",
        "#/doctor",
    ):
        console.load(address.format(**examples))
        age = "return document.getElementById('age').innerText"
        text = console.eventually(lambda: console.script(age), f"{address} has no age")  # noqa: B023
        assert re.fullmatch(r"From node 0 at \d\d:\d\d:\d\d, (just now|\d+ s ago)", text), text
    console.open("#/nothing")
    console.eventually(lambda: not console.script(age), "an age is shown without data")


def test_icons_are_inline_and_hidden_from_screen_readers(console: ConsolePage) -> None:
    hidden = "return [...document.querySelectorAll('nav#pages a svg, .logo')].map((one) => one.ariaHidden)"

    assert console.script(hidden) == ["true"] * 10
