"""The clusters that a process knows, kept from one batch to the next: a Spark worker serves many tasks.

What costs a small batch its time are connections and metadata, and both live here as long as the process.
"""

from typing import Final

from ottla.pipeline.client.client_settings import ClientSettings
from ottla.pipeline.client.metadata import Cluster

# Of queries that a worker has met; each holds a connection or two to a node.
MAX_CLUSTERS: Final = 16
_clusters: dict[ClientSettings, Cluster] = {}


def cluster_of(settings: ClientSettings) -> Cluster:
    """The process's one client with these settings; the one longest unused goes for a new one."""
    cluster = _clusters.pop(settings, None)
    if cluster is None:
        while len(_clusters) >= MAX_CLUSTERS:
            _clusters.pop(next(iter(_clusters))).close()
        cluster = Cluster(settings)
    _clusters[settings] = cluster
    return cluster


def close_clusters() -> None:
    """All of this process, which is about to end or has done with them; asked again, they are made anew."""
    while _clusters:
        _clusters.popitem()[1].close()
