"""A cluster inside the process of its user, with nodes that can be killed, paused, cut off. Bottom-up:

network         the network among the nodes, which can be cut
secured_access  the users of a secured cluster, and how clients of several libraries connect as them
cluster         the nodes, their threads and directories
"""

from ottla.node.embedded.cluster import Cluster

__all__ = ["Cluster"]
