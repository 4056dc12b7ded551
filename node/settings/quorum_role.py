"""Finds the role of a node in the metadata quorum from its settings."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.node.settings.cluster_settings import QuorumVoter, parse_bootstrap_servers, parse_voters
from ottla.node.settings.invalid_setting import invalid
from ottla.node.settings.listener_settings import Listener
from ottla.node.settings.setting import Typed


class QuorumRole(NamedTuple):
    """The role of a node in the metadata quorum."""

    is_voter: bool
    listeners: tuple[Listener, ...]
    voters: tuple[QuorumVoter, ...]
    bootstrap_servers: tuple[tuple[str, int], ...]
    warnings: tuple[str, ...] = ()


def quorum_role(node_id: int, typed: Typed, listeners: Sequence[Listener]) -> QuorumRole:
    """Return the role of a node; `listeners` are for controllers. INVALID_CONFIG if settings contradict."""
    voters = parse_voters(typed["controller_quorum_voters"])
    servers = parse_bootstrap_servers(typed["controller_quorum_bootstrap_servers"])
    roles = set(typed["process_roles"])
    is_named = any(voter.node_id == node_id for voter in voters)
    if voters and "controller" in roles and not is_named:
        raise invalid("controller.quorum.voters", f"it does not contain this controller, node {node_id}.")
    if is_named and roles == {"broker"}:
        raise invalid(
            "process.roles", "it must contain controller, because controller.quorum.voters names this node."
        )
    if not voters and roles == {"broker"} and not servers:
        raise invalid(
            "controller.quorum.voters",
            "a node that is only a broker needs this setting or controller.quorum.bootstrap.servers.",
        )
    # Apache Kafka's example of a single node names itself in controller.quorum.bootstrap.servers.
    own_ports = {listener.port for listener in listeners}
    starts_quorum = not voters and roles != {"broker"} and own_ports.issuperset(port for _, port in servers)
    is_voter = is_named or starts_quorum
    has_peers = len(voters) > 1 or not is_voter or roles == {"controller"}
    _check_peers_prove_themselves(has_peers, typed)
    if len(voters) > 1 and is_voter and not listeners:
        raise invalid(
            "controller.listener.names",
            "a voter of a quorum of several nodes needs a controller listener in listeners.",
        )
    if listeners and typed["cluster_secret"] is None:
        # Without the secret, any process could pose as a node there.
        warning = (
            "Controller listeners are not opened, because cluster.secret is not set; a "
            "single node needs neither."
        )
        return QuorumRole(is_voter, (), voters, servers, (warning,))
    return QuorumRole(is_voter, tuple(listeners), voters, servers)


def _check_peers_prove_themselves(has_peers: bool, typed: Typed) -> None:
    if has_peers and typed["cluster_secret"] is None:
        raise invalid(
            "cluster.secret",
            "a node of a cluster needs it; without it, anyone could pose as one of the nodes.",
        )
