"""A dispatcher that serves the world of a test."""

from typing import Any

from ottla.node.audit.audit_log import AuditLog
from ottla.node.kafka_api.dispatch import Dispatcher
from ottla.node.kafka_api.served_apis import SERVED, Served
from ottla.node.net.peer_handshake import PeerGate
from ottla.node.work.large_requests import LargeRequests


def dispatcher_of(
    world: Any,
    *,
    served_apis: Served = SERVED,
    large_requests: LargeRequests | None = None,
    peer_gate: PeerGate | None = None,
    audit: AuditLog | None = None,
) -> Dispatcher:
    """Return a dispatcher that serves clients and peers, with `world` as the services of its handlers."""
    dispatcher = Dispatcher(
        world, served_apis=served_apis, large_requests=large_requests, peer_gate=peer_gate, audit=audit
    )
    dispatcher.serve_peers(world)
    dispatcher.serve_logins_of_peers()
    dispatcher.load(world)
    dispatcher.serve_clients()
    return dispatcher
