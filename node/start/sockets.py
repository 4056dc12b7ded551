"""Binds the listeners of a node first of all, so that a port in use is found before anything is written."""

import socket
from collections.abc import Callable, Sequence
from functools import partial

from ottla.metadata_raft.image import Endpoint
from ottla.metadata_raft.raft_link import AcceptedLink
from ottla.node.kafka_api.sasl_gate import SaslGate
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.net.listener import Listener, ListenerLimits
from ottla.node.node_view import RestDoors
from ottla.node.security.access_token import VerifiedToken
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.listener_settings import ANYWHERE
from ottla.node.settings.rest_security_settings import REST
from ottla.node.settings.security_settings import ListenerSecurity
from ottla.node.start.foundation import Foundation, node_login
from ottla.node.wire.sasl_mechanisms import OAUTHBEARER


async def bind_listeners(base: Foundation, gathered: GatheredAnswers) -> list[Listener]:
    """Bind the addresses of `listeners`; no connection is accepted yet.

    The keys of the controller listeners and of the REST API are read, too. OSError with the address in a note
    if an address is in use, INVALID_CONFIG if keys cannot be used; then all addresses are released.
    """
    config = base.config
    limits = ListenerLimits(
        socket_request_max_bytes=config.socket_request_max_bytes,
        connections_max_idle_ms=config.connections_max_idle_ms,
        connection_failed_authentication_delay_ms=config.connection_failed_authentication_delay_ms,
        socket_listen_backlog_size=config.socket_listen_backlog_size,
        socket_send_buffer_bytes=config.socket_send_buffer_bytes,
    )
    listeners: list[Listener] = []
    try:
        for address in config.listeners:
            security = config.listener_security.get(address.name)
            is_for_peers = address.name == config.inter_broker_listener_name
            is_protected = is_for_peers and len(config.listeners) > 1
            listener = Listener(
                name=address.name,
                security_protocol=address.security_protocol,
                service=base.dispatcher.service,
                memory=base.receive_memory,
                quota=base.connection_quota,
                limits=limits,
                start_task=base.tasks.start,
                gathered=gathered,
                access_of=base.access_of,
                on_peer_lost=base.peer_lost,
                must_pause=base.world.disk.is_behind,
                is_for_peers=is_for_peers,
                is_protected=is_protected,
                unsent=base.unsent,
                receive_windows=base.receive_windows,
                send_buffers=base.send_buffers,
                tls=None if security is None else await base.listener_tls.open(security),
                handshakes=base.handshakes,
                failures=base.failed_logins,
                login_gate=await _login_gate(base, address.name, is_for_nodes_only=is_protected)
                if address.name in config.listener_sasl
                else None,
                on_failed_login=base.audit.failed_login,
                take_link=None if config.is_broker else partial(_hand_over_link, base, len(listeners)),
            )
            listeners.append(listener)
            try:
                await listener.bind(address.host, address.port)
            except OSError as error:
                error.add_note(f"{address.name}://{address.host}:{address.port}")
                raise
        for security in _controllers_security(config):
            await base.listener_tls.open(security)
        if config.rest_security is not None:
            await base.listener_tls.open(config.rest_security)
    except BaseException:  # a port in use, or a cancelled start
        stop_accepting(listeners)
        raise
    return listeners


def rest_doors(base: Foundation) -> RestDoors:
    """Return what the REST API needs to authenticate its clients."""
    return RestDoors(
        acting=base.acting,
        access_of=base.access_of,
        login=lambda: node_login(base.state.config),
        failed_logins=base.failed_logins,
        false_credentials=base.false_credentials,
        on_failed_login=base.audit.failed_login,
        unique=base.world.unique,
    )


async def rest_token_verifier(base: Foundation) -> Callable[[str], VerifiedToken] | None:
    """Return the verifier of access tokens of the REST API; None if it accepts no tokens."""
    tokens = base.config.rest_logins.tokens
    if tokens is None:
        return None
    verifier = await base.token_verifiers.open(REST, tokens)
    base.background_work.append(verifier.run)
    return verifier.verify


def _controllers_security(config: BrokerConfig) -> list[ListenerSecurity]:
    """Return the TLS of the controller listeners, and the TLS with which this node dials them.

    That of listeners of this node is left out: `bind_listeners` has read its keys already.
    """
    names = dict.fromkeys(one.name for one in config.controller_listeners)
    if config.controller_security is not None:
        names[config.controller_security.listener] = None
    # If the node is only a controller, these are its listeners, whose keys are already open.
    closed = config.listener_security.keys() - {one.name for one in config.listeners}
    return [config.listener_security[name] for name in names if name in closed]


def _hand_over_link(base: Foundation, listener_index: int, sock: socket.socket, received: bytes) -> None:
    base.link_accepted(AcceptedLink(listener_index, sock, received))


async def _login_gate(base: Foundation, name: str, *, is_for_nodes_only: bool) -> SaslGate:
    clock = base.world.clock
    oauth = base.config.listener_sasl[name].mechanisms.get(OAUTHBEARER)
    if oauth is not None and oauth.tokens is not None:
        verifier = await base.token_verifiers.open(name, oauth.tokens)
        base.background_work.append(verifier.run)
    return SaslGate(
        lambda: base.config.listener_sasl[name],
        base.dispatcher,
        executor=base.handshakes,
        failures=base.failed_logins,
        unique=base.world.unique,
        false_credentials=base.false_credentials,
        verifier=lambda: base.token_verifiers.of(name),
        now_ms=clock.now_ms,
        on_failed_login=base.audit.failed_login,
        is_for_nodes_only=is_for_nodes_only,
    )


def stop_accepting(listeners: Sequence[Listener]) -> None:
    """Stop accepting connections."""
    for listener in listeners:
        listener.stop_accepting()


def registered_listeners(config: BrokerConfig, listeners: Sequence[Listener]) -> dict[str, Endpoint]:
    """Return the addresses at which other nodes reach this one, by listener.

    Without `advertised.listeners`, a client receives the address that it connected to instead.
    """
    advertised = {one.name: one for one in config.advertised_listeners}
    protocols = {one.name: one.security_protocol_id for one in config.listeners}
    return {
        one.name: Endpoint(
            advertised[one.name].host
            if one.name in advertised
            else socket.gethostname()
            if one.host in ANYWHERE
            else one.host,
            advertised[one.name].port if one.name in advertised else one.port,
            protocols[one.name],
        )
        for one in listeners
    }


def registered_controllers(config: BrokerConfig) -> dict[str, Endpoint]:
    """Return the addresses at which voters reach this node if it is or becomes a voter, by listener."""
    found = {one.name: one for one in (*config.controller_listeners, *config.advertised_controllers)}
    return {
        name: Endpoint(
            socket.gethostname() if one.host in ANYWHERE else one.host, one.port, one.security_protocol_id
        )
        for name, one in found.items()
    }


def listeners_for_nodes(config: BrokerConfig, listeners: Sequence[Listener]) -> list[Listener]:
    """Return the listeners that open for other nodes before clients; none without `cluster.secret`."""
    if config.cluster_secret is None:
        return []
    return [one for one in listeners if not config.is_broker or one.name == config.inter_broker_listener_name]
