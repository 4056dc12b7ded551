"""A cluster within one process, with nodes that can be killed, paused and cut off. Bottom-up:

network         the network between the nodes, which can be cut
secured_access  the users of a secured cluster, with their client settings and ACLs
cluster         the cluster: its nodes, their threads and directories
"""

from ottla.node.embedded.cluster import Cluster

__all__ = ["Cluster"]
