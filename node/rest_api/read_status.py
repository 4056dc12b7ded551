"""The facts that decide if a node is ready, read without the libraries of the REST API.

Those libraries are loaded late or never, so the facts that a starting node needs are read here.
"""

from ottla.node.metrics.read_node import voter_of
from ottla.node.node_view import NodeView
from ottla.node.rest_api.readiness import NodeStatus


def state_of(node: NodeView) -> NodeStatus:
    """Collect the facts that decide whether a node is ready."""
    quorum = node.quorum_services
    voter = None if quorum is None else voter_of(quorum.quorum)
    voters = () if quorum is None else quorum.metadata.quorum_status().voters
    own = [one for one in voters if one.node_id == node.config.node_id]
    return NodeStatus(
        node.config.node_id,
        None if quorum is None else quorum.lifecycle.state,
        node.state.is_serving,
        node.state.cut_off_since_ms,
        None if quorum is None else quorum.image,
        None if voter is None else voter.waits_for(),
        any(one.is_disk_old for one in own),
        any(one.is_disk_copied for one in own),
        next(iter(node.listener_tls.problems()), None),
    )
