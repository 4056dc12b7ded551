"""The clusters that a process knows, kept from one micro-batch to the next: a Spark worker serves many tasks.

Connections and metadata are most of what a small batch costs, and both are kept as long as the process runs.
"""

from typing import Final

from ottla.pipeline.client.client_settings import ClientSettings
from ottla.pipeline.client.metadata import Cluster

# The queries that a worker meets; each cluster has a connection or two to a node.
MAX_CLUSTERS: Final = 16
_clusters: dict[ClientSettings, Cluster] = {}


def cluster_of(settings: ClientSettings) -> Cluster:
    """Return this process's client with these settings; a new one may replace the least recently used."""
    cluster = _clusters.pop(settings, None)
    if cluster is None:
        while len(_clusters) >= MAX_CLUSTERS:
            _clusters.pop(next(iter(_clusters))).close()
        cluster = Cluster(settings)
    _clusters[settings] = cluster
    return cluster


def close_clusters() -> None:
    """Close all clusters of this process; `cluster_of` makes them again if needed."""
    while _clusters:
        _clusters.popitem()[1].close()
