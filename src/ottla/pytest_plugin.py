"""For test suites of others: `ottla_cluster`, a running cluster that any Kafka client can use.

    def test_orders(ottla_cluster):
        producer = Producer({"bootstrap.servers": ottla_cluster.bootstrap})

It is one for the whole session and has three nodes (`--ottla-nodes`); `ottla_secure_cluster` is one with TLS,
logins and access control. A test that kills nodes makes its own
with `ottla_cluster_factory(nodes=3, overrides={...})`. A suite that asks for neither loads this file alone,
which imports nothing but pytest, so that it cannot fail where Ottla itself would.
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
    """Have the modules of Ottla imported as outside of pytest.

    pytest rewrites the asserts of all that is installed with a plugin, which takes several times as long as
    to import it. There is no public way to refuse; where this one is not there nothing is done.
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
    """Starts clusters for one test alone: `ottla_cluster_factory(nodes=3, overrides={...})`."""
    from ottla.testing import Cluster

    started: list[Cluster] = []

    def start(**options: Any) -> Cluster:
        started.append(Cluster(**options).start())
        return started[-1]

    yield start
    for cluster in started:
        cluster.stop()
