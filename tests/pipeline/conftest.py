"""What the tests of the pipeline's client share: a cluster of three nodes, and clients of it."""

from collections.abc import Callable, Iterator

import pytest

from node.embedded import Cluster as Nodes
from pipeline.client.client_settings import ClientSettings, Role
from pipeline.client.metadata import Cluster
from tests.pipeline.topics import settings_for

MakeClient = Callable[..., Cluster]


@pytest.fixture
def client(ottla_cluster: Nodes) -> Iterator[MakeClient]:
    """Makes clients of the session's cluster: `client(role, fetch_min_bytes="1")`, underscores for dots."""
    made: list[Cluster] = []

    def make(role: Role = Role.SOURCE, **given: str) -> Cluster:
        settings: ClientSettings = settings_for(ottla_cluster.bootstrap, role, **given)
        made.append(Cluster(settings))
        return made[-1]

    yield make
    for one in made:
        one.close()
