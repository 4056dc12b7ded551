"""For test suites of others: `ottla_cluster`, a running cluster that any Kafka client can use.

    def test_orders(ottla_cluster):
        producer = Producer({"bootstrap.servers": ottla_cluster.bootstrap})

It is one for the whole session and has three nodes (`--ottla-nodes`). A test that kills nodes makes its own
with `ottla_cluster_factory(nodes=3, overrides={...})`. A suite that asks for neither loads this file alone,
which imports nothing but pytest, so that it cannot fail where Ottla itself would.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla.testing import Cluster


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--ottla-nodes N`."""
    group = parser.getgroup("ottla", "an embedded Ottla cluster")
    group.addoption("--ottla-nodes", type=int, default=3, metavar="N", help="nodes of ottla_cluster (3)")


@pytest.fixture(scope="session")
def ottla_cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """A cluster for all tests of the session; give your topics names of their own."""
    from ottla.testing import Cluster

    with Cluster(nodes=request.config.getoption("--ottla-nodes")) as cluster:
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
