"""The console as a user sees it: tests act by the texts on the page, in a headless browser."""

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    JavascriptException,
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # All pages are from our nodes: no process per site, no spare process, no back-forward cache.
    "--disable-site-isolation-trials",
    "--disable-features=IsolateOrigins,site-per-process,SpareRendererForSitePerProcess,BackForwardCache",
]
TIMEOUT_S = 60.0  # only a failing test waits this long
POLL_S = 0.05
# An element that is redrawn between being found and being used is searched for again.
GONE = (
    StaleElementReferenceException,
    NoSuchElementException,
    ElementNotInteractableException,
    ElementClickInterceptedException,
    JavascriptException,
)

ERROR_RESPONSE = re.compile(
    r"/v[13]/\S* - Failed to load resource: the server responded with a status of 4\d\d"
)

# The search runs in the browser, since each WebDriver call about an element is a round trip. If a dialog is
# open, only the dialog is searched.
FRONT = """
const front = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
const all = (kind) => [...front.querySelectorAll(kind)];
const isSeen = (one) => one.checkVisibility({ visibilityProperty: true });
const textOf = (one) => isSeen(one) ? one.innerText.replaceAll("\\u00a0", " ").trim() : "";
const inOneLine = (one) => textOf(one).replace(/\\s+/g, " ");
"""
ROWS = """
return all("tbody tr").map((row) => [inOneLine(row), ...[...row.querySelectorAll("th, td")].map(textOf)]);
"""
ROW = """
const words = [...arguments];
return all("tbody tr").find((row) => words.every((word) => inOneLine(row).includes(word))) ?? null;
"""
CONTROL = """
const name = arguments[0];
const isIt = (one) => isSeen(one) && [textOf(one), one.getAttribute("aria-label")].includes(name);
const controls = [...all("button"), ...all("a, label.check")];
return controls.find((one) => isIt(one) && !one.matches(":disabled")) ?? null;
"""
FIELD = """
const name = arguments[0];
const label = all("label").find((one) => textOf(one) === name);
return label ? document.getElementById(label.htmlFor) : null;
"""
PROBLEM = 'return all(".problem").map(textOf).join("");'

T = TypeVar("T")


def missing_program() -> str | None:
    """Return the program that the tests of the console need and this machine lacks, or None."""
    return next((name for name in ("chromium", "chromedriver") if shutil.which(name) is None), None)


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """Start a browser with its own profile."""
    with tempfile.TemporaryDirectory(prefix="ottla-chromium-", ignore_cleanup_errors=True) as profile:
        options = Options()
        options.binary_location = shutil.which("chromium") or ""
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield driver
        finally:
            driver.quit()


class ConsolePage:
    """One tab of the browser with the console of the node at `url`."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver = driver
        self.url = url

    def open(self, address: str = "#/") -> None:
        """Go to a page as a link would."""
        self.driver.get(f"{self.url}/{address}")

    def load(self, address: str = "#/") -> None:
        """Load a page as in a new tab: only the browser's storage is kept."""
        self.driver.get("about:blank")
        self.open(address)

    # ---- what is seen ----------------------------------------------------------------------------

    def eventually(self, ask: Callable[[], T], failure: str) -> T:
        """Call `ask` until its result is true, and return it; fail with `failure` after TIMEOUT_S."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            with suppress(*GONE):
                if found := ask():
                    return found
            assert time.monotonic() < deadline_s, f"{failure}; there is:\n{self.text()}"
            time.sleep(POLL_S)

    def text(self) -> str:
        """Return all text on the page."""
        return str(self.script("return document.body.innerText"))

    def sees(self, *texts: str) -> None:
        """Wait until all of these texts are on the page."""
        for one in texts:
            self.eventually(lambda one=one: one in self.text(), f"“{one}” does not appear")  # type: ignore[misc]

    def waits_until_gone(self, text: str) -> None:
        """Wait until a text is no longer on the page."""
        self.eventually(lambda: text not in self.text(), f"“{text}” does not disappear")

    def title(self) -> str:
        return self.eventually(lambda: self.driver.find_element(By.CSS_SELECTOR, "main h1").text, "no title")

    def row(self, *words: str) -> WebElement:
        """Return the row of a table that has all these words."""
        return self._found(ROW, *words, element=f"row with {words}")

    def cells(self, *words: str) -> list[str]:
        """Return the text of each cell in the row with these words."""

        def find() -> list[str]:
            return next((one[1:] for one in self._rows() if all(word in one[0] for word in words)), [])

        return self.eventually(find, f"no row with {words}")

    def cells_of(self, name: str) -> list[str]:
        """Return the text of each cell in the row with this name."""

        def find() -> list[str]:
            return next((one[1:] for one in self._rows() if one[1].split() == name.split()), [])

        return self.eventually(find, f"no row {name}")

    def _rows(self) -> list[list[str]]:
        """Return for each row of all tables its text, followed by that of each cell."""
        return list(self.script(FRONT + ROWS))

    def _found(self, source: str, *arguments: str, element: str) -> WebElement:
        """Return the first element that a script finds."""
        found = self.eventually(lambda: self.script(FRONT + source, *arguments), f"there is no {element}")
        assert isinstance(found, WebElement)
        return found

    def fact(self, name: str) -> str:
        """Return the value beside a name in a list of facts."""
        where = f"//dl/div[dt[normalize-space()='{name}']]/dd"
        return self.eventually(lambda: self.driver.find_element(By.XPATH, where).text, f"no {name}")

    def problem(self) -> str:
        """Return the error of the open form, or ""."""
        return str(self.script(FRONT + PROBLEM))

    # ---- what is done ----------------------------------------------------------------------------

    def click(self, name: str) -> None:
        """Click the button with this name, or else the link or the checkbox; in the dialog if one is open."""

        def press() -> bool:
            found = self.script(FRONT + CONTROL, name)
            if found is not None:
                found.click()
            return found is not None

        self.eventually(press, f"nothing called “{name}” to press")

    def field(self, label: str) -> WebElement:
        """Return the control with this label."""
        return self._found(FIELD, label, element=f"field “{label}”")

    def fill(self, label: str, text: str) -> None:
        control = self.field(label)
        control.clear()
        control.send_keys(text)

    def choose(self, label: str, option: str) -> None:
        """Choose an option, which may appear a moment later."""

        def pick() -> bool:
            Select(self.field(label)).select_by_visible_text(option)
            return True

        self.eventually(pick, f"“{option}” cannot be chosen as {label}")

    def move(self, topic: str, partition: int, *brokers: int) -> None:
        """Move a partition to these brokers, the preferred leader first, on the page of moves."""
        self.choose("Topic", topic)
        self.choose("Partition", str(partition))
        boxes = "fieldset label.check"
        self.eventually(
            lambda: self.script(f"return !!document.querySelector('{boxes} :checked')"), "no broker"
        )
        for box in self.driver.find_elements(By.CSS_SELECTOR, boxes):
            wanted = int(box.text.split()[1]) in brokers
            if box.find_element(By.TAG_NAME, "input").is_selected() != wanted:
                box.click()
        self.choose("Preferred leader", f"broker {brokers[0]}")
        self.click("Move…")
        self.click("Move it")

    def keys(self, *keys: str) -> None:
        """Send keys to the focused element."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def focused(self) -> str:
        """Return the name of the focused element."""
        return str(
            self.script(
                "const one = document.activeElement;"
                " return one.getAttribute('aria-label') ?? one.textContent.trim()"
            )
        )

    # ---- the browser -----------------------------------------------------------------------------

    def script(self, source: str, *arguments: object) -> Any:
        return self.driver.execute_script(source, *arguments)

    def use_theme(self, scheme: str) -> None:
        """Emulate a system that prefers light or dark colours."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def resize(self, width: int, height: int = 800) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def errors(self) -> Sequence[str]:
        """Return the errors and warnings that the browser has reported since the last call.

        Error responses of the API do not count: tests cause them, and the page shows them.
        """
        log = self.driver.get_log("browser")
        messages = [one["message"] for one in log if one["level"] in ("SEVERE", "WARNING")]
        return [one for one in messages if not ERROR_RESPONSE.search(one)]
