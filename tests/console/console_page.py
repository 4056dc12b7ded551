"""The console as somebody uses it: by what is written on it, in a browser that runs without a window."""

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
]
PATIENCE_S = 60.0  # only a failure waits for so long
POLL_S = 0.05
# What is drawn anew between being found and being used is looked for again.
GONE = (
    StaleElementReferenceException,
    NoSuchElementException,
    ElementNotInteractableException,
    ElementClickInterceptedException,
    JavascriptException,
)

REFUSED = re.compile(r"/v[13]/\S* - Failed to load resource: the server responded with a status of 4\d\d")

T = TypeVar("T")


def missing_program() -> str | None:
    """What a test of the console lacks on this machine."""
    return next((name for name in ("chromium", "chromedriver") if shutil.which(name) is None), None)


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own."""
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
        """Go to a page as by its link."""
        self.driver.get(f"{self.url}/{address}")

    def load(self, address: str = "#/") -> None:
        """Go to a page in a new tab's stead: nothing is remembered but what the browser keeps."""
        self.driver.get("about:blank")
        self.open(address)

    # ---- what is seen ----------------------------------------------------------------------------

    def eventually(self, ask: Callable[[], T], what: str) -> T:
        """The first answer that is true."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            with suppress(*GONE):
                if found := ask():
                    return found
            assert time.monotonic() < deadline_s, f"{what}; there is:\n{self.text()}"
            time.sleep(POLL_S)

    def text(self) -> str:
        """All that is written on the page."""
        return str(self.script("return document.body.innerText"))

    def sees(self, *texts: str) -> None:
        """Wait until all of it is there."""
        for one in texts:
            self.eventually(lambda one=one: one in self.text(), f"“{one}” does not come")  # type: ignore[misc]

    def misses(self, text: str) -> None:
        """Wait until it is gone."""
        self.eventually(lambda: text not in self.text(), f"“{text}” does not go")

    def title(self) -> str:
        return self.eventually(lambda: self.driver.find_element(By.CSS_SELECTOR, "main h1").text, "no title")

    def row(self, *words: str) -> WebElement:
        """The row of a table that has all these words."""

        def find() -> WebElement | None:
            rows = self._front().find_elements(By.CSS_SELECTOR, "tbody tr")
            return next((one for one in rows if all(word in one.text for word in words)), None)

        found = self.eventually(find, f"no row with {words}")
        assert found is not None
        return found

    def cells(self, *words: str) -> list[str]:
        """What stands in the row with these words, cell by cell."""
        return self.eventually(
            lambda: [one.text for one in self.row(*words).find_elements(By.CSS_SELECTOR, "th, td")],
            "no cells",
        )

    def cells_of(self, name: str) -> list[str]:
        """What stands in the row that has this name, cell by cell."""

        def find() -> list[str] | None:
            for row in self._front().find_elements(By.CSS_SELECTOR, "tbody tr"):
                cells = [one.text for one in row.find_elements(By.CSS_SELECTOR, "th, td")]
                if cells[0].split() == name.split():
                    return cells
            return None

        found = self.eventually(find, f"no row {name}")
        assert found is not None
        return found

    def fact(self, name: str) -> str:
        """What stands beside a name in a list of facts."""
        where = f"//dl/div[dt[normalize-space()='{name}']]/dd"
        return self.eventually(lambda: self.driver.find_element(By.XPATH, where).text, f"no {name}")

    def problem(self) -> str:
        """Why the form that is open was refused; empty if it was not."""
        return "".join(one.text for one in self._front().find_elements(By.CSS_SELECTOR, ".problem"))

    # ---- what is done ----------------------------------------------------------------------------

    def click(self, name: str) -> None:
        """Press the button of this name, or else the link or the box; in a dialog where one is open."""

        def press() -> bool:
            for kind in ("button", "a, label.check"):
                for one in self._front().find_elements(By.CSS_SELECTOR, kind):
                    if self._is(one, name) and one.is_enabled():
                        one.click()
                        return True
            return False

        self.eventually(press, f"nothing called “{name}” to press")

    def _is(self, element: WebElement, name: str) -> bool:
        return element.is_displayed() and name in (element.text.strip(), element.get_attribute("aria-label"))

    def _front(self) -> WebElement:
        dialogs = self.driver.find_elements(By.CSS_SELECTOR, "dialog[open]")
        return dialogs[-1] if dialogs else self.driver.find_element(By.TAG_NAME, "body")

    def field(self, label: str) -> WebElement:
        """The control with this label."""

        def find() -> WebElement | None:
            for one in self._front().find_elements(By.TAG_NAME, "label"):
                if one.text.strip() == label and one.is_displayed():
                    return self.driver.find_element(By.ID, one.get_attribute("for") or "")
            return None

        found = self.eventually(find, f"no field “{label}”")
        assert found is not None
        return found

    def fill(self, label: str, text: str) -> None:
        control = self.field(label)
        control.clear()
        control.send_keys(text)

    def choose(self, label: str, option: str) -> None:
        Select(self.field(label)).select_by_visible_text(option)

    def keys(self, *keys: str) -> None:
        """Press keys where the focus is."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def focused(self) -> str:
        """The name of what has the focus."""
        return str(
            self.script(
                "const one = document.activeElement;"
                " return one.getAttribute('aria-label') ?? one.textContent.trim()"
            )
        )

    # ---- the browser -----------------------------------------------------------------------------

    def script(self, source: str, *arguments: object) -> Any:
        return self.driver.execute_script(source, *arguments)

    def wear(self, scheme: str) -> None:
        """Have the system ask for light or dark colours."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def resize(self, width: int, height: int = 800) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def errors(self) -> Sequence[str]:
        """What the browser complained of since this was asked last.

        That the API refused something is none of it: tests have it refuse things, and the page tells it.
        """
        log = self.driver.get_log("browser")
        told = [one["message"] for one in log if one["level"] in ("SEVERE", "WARNING")]
        return [one for one in told if not REFUSED.search(one)]
