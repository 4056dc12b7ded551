"""A cluster inside a test process: `with Cluster(nodes=3) as cluster: ... cluster.bootstrap`."""

from ottla.node.embedded import Cluster

__all__ = ["Cluster"]
