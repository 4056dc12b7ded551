"""Makes the balancer, which works while this node is the controller."""

from ottla.logstore.log_manager import LogManager
from ottla.logstore.volume import volume_bytes
from ottla.node.metadata.balancer import Balancer, LogDirSizes
from ottla.node.services import QuorumServices
from ottla.node.start.foundation import Foundation
from ottla.node.start.node_tasks import in_thread
from ottla.node.work.turns import Turn


def make_balancer(base: Foundation, parts: QuorumServices) -> Balancer:
    """Make the balancer of a node; it does not run yet."""
    return Balancer(
        node_id=base.config.node_id,
        metadata=parts.metadata,
        config=lambda: base.config,
        own_sizes=lambda: _own_sizes(base.log_manager),
        ask=base.peers.ask,
        in_thread=in_thread,
        clock=base.world.clock,
    )


async def _own_sizes(log_manager: LogManager) -> LogDirSizes:
    """Return the sizes of the log directories and replicas of this node, measured in turns."""
    turn, replicas = Turn(), {}
    for name, log in list(log_manager.logs.items()):
        replicas[name] = log.size_bytes
        await turn.step()
    volumes = [volume_bytes(log_dir.path) for log_dir in log_manager.online_dirs]
    total_bytes = sum(max(0, one.total) for one in volumes)
    return LogDirSizes(total_bytes, total_bytes - sum(max(0, one.usable) for one in volumes), replicas)
