"""One browser and one cluster of three nodes for all tests of the console; each test uses its own names."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from selenium import webdriver

from ottla.node.embedded import Cluster
from tests.console.console_page import ConsolePage, chromium, missing_program


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    missing = missing_program()
    if missing is not None:
        pytest.skip(f"needs {missing}: apt-get install chromium chromium-driver")
    with chromium() as driver:
        yield driver


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    overrides = {
        "num.partitions": "3",
        "default.replication.factor": "3",
        "ottla.history.interval.ms": "1000",
    }
    with Cluster(3, rest=True, overrides=overrides) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def producer(cluster: Cluster) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 0})


@pytest.fixture
def console(browser: webdriver.Chrome, cluster: Cluster) -> Iterator[ConsolePage]:
    """Open the console of the first node as a new visitor; errors in the browser fail the test."""
    page = ConsolePage(browser, cluster.rest_urls[0])
    page.resize(1280)
    page.use_theme("light")
    page.errors()
    page.load()
    page.script("localStorage.clear(); document.documentElement.removeAttribute('data-theme')")
    yield page
    assert page.errors() == []
    assert page.script("return window.hacked ?? null") is None
