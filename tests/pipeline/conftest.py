"""Fixtures for tests of the pipeline's client: a cluster of three nodes, and clients of it.

`OTTLA_TEST_BOOTSTRAP=host:port` runs them against any running cluster, such as Apache Kafka.
"""

import os
from collections.abc import Callable, Iterator

import pytest

from ottla.node.embedded import Cluster as Nodes
from ottla.pipeline.client.client_settings import ClientSettings, Role
from ottla.pipeline.client.metadata import Cluster
from tests.pipeline.mirrored import Mirrored
from tests.pipeline.topics import settings_for

MakeClient = Callable[..., Cluster]
MakeMirrored = Callable[..., Mirrored]


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Return the bootstrap address of the cluster."""
    given = os.environ.get("OTTLA_TEST_BOOTSTRAP")
    if given:
        return given
    cluster: Nodes = request.getfixturevalue("ottla_cluster")
    return cluster.bootstrap


@pytest.fixture
def client(bootstrap: str) -> Iterator[MakeClient]:
    """Make clients of the cluster: `client(role, fetch_min_bytes="1")`, with underscores for dots."""
    made: list[Cluster] = []

    def make(role: Role = Role.SOURCE, **given: str) -> Cluster:
        settings: ClientSettings = settings_for(bootstrap, role, **given)
        made.append(Cluster(settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def make_mirrored(bootstrap: str) -> Iterator[MakeMirrored]:
    """Make mirrors of the cluster into itself; options as for `client`."""
    made: list[Mirrored] = []

    def make(**given: str) -> Mirrored:
        made.append(Mirrored(bootstrap, **given))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def mirrored(make_mirrored: MakeMirrored) -> Mirrored:
    return make_mirrored()
