"""Fixtures for the test suites of users: `ottla_cluster`, a running cluster for any Kafka client.

    def test_orders(ottla_cluster):
        producer = Producer({"bootstrap.servers": ottla_cluster.bootstrap})

It serves the whole session and has three nodes (`--ottla-nodes`); `ottla_secure_cluster` has TLS, logins and
access control. A test that kills nodes makes its own cluster with `ottla_cluster_factory(nodes=3,
overrides={...})`. In a suite that uses none of them only this file is loaded, which imports nothing but
pytest, so that it cannot fail there.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla.testing import Cluster


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add `--ottla-nodes N`."""
    _leave_asserts_as_they_are(pluginmanager)
    group = parser.getgroup("ottla", "an embedded Ottla cluster")
    group.addoption(
        "--ottla-nodes", type=int, default=3, metavar="N", help="number of nodes of ottla_cluster (default 3)"
    )


def _leave_asserts_as_they_are(pluginmanager: pytest.PytestPluginManager) -> None:
    """Import Ottla's modules without pytest's rewriting of asserts.

    pytest rewrites the asserts of every package that is installed with a plugin, which takes several times as
    long as the import itself. There is no public way to decline; if the private one is missing, nothing is
    done.
    """
    marked = getattr(pluginmanager.rewrite_hook, "_must_rewrite", None)
    known = getattr(pluginmanager.rewrite_hook, "_marked_for_rewrite_cache", None)
    if isinstance(marked, set) and isinstance(known, dict):
        ours = [name for name in marked if str(name).partition(".")[0] in ("ottla", "pyspark_ottla")]
        marked.difference_update(ours)
        known.clear()


@pytest.fixture(scope="session")
def ottla_cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """A cluster for all tests of the session; give your topics names of their own."""
    from ottla.testing import Cluster

    with Cluster(nodes=request.config.getoption("--ottla-nodes")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def ottla_secure_cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """A cluster with TLS, logins and access control for all tests of the session; see its `client_config`."""
    from ottla.testing import Cluster

    with Cluster(nodes=request.config.getoption("--ottla-nodes"), secure=True) as cluster:
        yield cluster


@pytest.fixture
def ottla_cluster_factory() -> "Iterator[Callable[..., Cluster]]":
    """Start clusters for a single test: `ottla_cluster_factory(nodes=3, overrides={...})`."""
    from ottla.testing import Cluster

    started: list[Cluster] = []

    def start(**options: Any) -> Cluster:
        started.append(Cluster(**options).start())
        return started[-1]

    yield start
    for cluster in started:
        cluster.stop()
