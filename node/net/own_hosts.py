"""The hosts at which others reach this node, from its settings."""

import socket

from ottla.node.settings.config import BrokerConfig


def own_hosts(config: BrokerConfig) -> frozenset[str]:
    """Return the hosts at which others reach this node, as `hosts_of` does for other nodes."""
    advertised = {one.name: one.host for one in config.advertised_listeners}
    hosts = {advertised.get(one.name) or one.host or socket.gethostname() for one in config.listeners}
    voters = config.controller_quorum_voters
    return frozenset(hosts | {one.host for one in voters if one.node_id == config.node_id})
