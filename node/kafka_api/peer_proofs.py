"""Turns a connection into that of a node of the cluster, or of a caller for whom a node acts.

Handlers do not see connections, so dispatch answers these requests itself. If this node has no secret to
check a proof with, the API of that proof does not exist.
"""

import logging

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.peer_certificate import check_certificate_names
from ottla.node.audit.audit_log import AuditLog
from ottla.node.kafka_api.served_apis import PROOFS, SERVED_TO_PEERS
from ottla.node.net import act_for
from ottla.node.net.act_for import ActingChallenge, ActingSecrets
from ottla.node.net.answers import CloseConnection
from ottla.node.net.client_lines import ClientLines
from ottla.node.net.connection import Connection
from ottla.node.net.connection_info import NO_PEER
from ottla.node.net.peer_handshake import NONCE_BYTES, Challenge, PeerGate, answer_hello, check_proof
from ottla.node.node_state import NodeState
from ottla.node.wire.messages.act_for import ActForRequest, ActForResponse
from ottla.node.wire.messages.peer_handshake import (
    HELLO,
    PROVE,
    PeerApiVersion,
    PeerHandshakeRequest,
    PeerHandshakeResponse,
)
from ottla.node.wire.peer_api import PeerApi

PEER_MECHANISM = "cluster.secret"  # the audit log's name for the proof of a node


class PeerProofs:
    """Checks the proofs of nodes."""

    def __init__(
        self,
        state: NodeState,
        *,
        gate: PeerGate | None,
        acting: ActingSecrets | None,
        audit: AuditLog,
        lines: ClientLines,
    ) -> None:
        """`gate` is None if no node can prove its identity, `acting` if none can act for its callers."""
        self._state = state
        self._gate = gate
        self._acting = acting
        self._audit = audit
        self._lines = lines

    def prove(self, connection: Connection, api_key: int, request: object) -> object:
        """Return the answer to one step of a proof; `api_key` is one of `PROOFS`."""
        if api_key == PeerApi.PEER_HANDSHAKE:
            assert isinstance(request, PeerHandshakeRequest)
            return self._answer_handshake(connection, request)
        assert isinstance(request, ActForRequest)
        return self._act_for(connection, request)

    def check(self, connection: Connection, api_key: int) -> None:
        """Raise CloseConnection if a connection may not use this API.

        All of these APIs need the listener for connections between brokers, and all but the proofs themselves
        a proven node at the other end.
        """
        info = connection.info
        gate = self._acting if api_key == PeerApi.ACT_FOR else self._gate
        is_open = api_key in PROOFS or info.peer_id != NO_PEER
        is_there = info.listener_name == self._state.config.inter_broker_listener_name
        if not (is_open and is_there and gate is not None) or info.caller_host:
            raise CloseConnection(f"API key {api_key} is not supported")

    def _answer_handshake(
        self, connection: Connection, request: PeerHandshakeRequest
    ) -> PeerHandshakeResponse:
        """Answer one step of a peer's handshake; a second proof for one challenge closes the connection."""
        gate = self._gate
        assert gate is not None
        challenge, connection.peer_challenge = connection.peer_challenge, None
        if not isinstance(challenge, Challenge):
            challenge = None
        try:
            if request.step == HELLO and connection.info.peer_id == NO_PEER:
                self._check_certificate(connection, request.node_id)
                self._check_user(connection)
                response, connection.peer_challenge = answer_hello(
                    request, secret=gate.secret, own=gate.identity(), nonce=gate.unique(NONCE_BYTES)
                )
                return response
            if request.step != PROVE or challenge is None:
                raise CloseConnection("a peer sent a message of its handshake out of order")
            peer = check_proof(request, challenge, secret=gate.secret)
        except KafkaError as error:
            host = connection.info.client_host
            message = "The handshake of a peer at %s was rejected: %s"
            self._lines.log(logging.WARNING, host, message, host, error.detail)
            self._audit.failed_login("", host, connection.info.listener_name, PEER_MECHANISM, error.detail)
            return PeerHandshakeResponse(error_code=error.code, error_message=error.detail)
        connection.recognize(peer.node_id)
        return PeerHandshakeResponse(
            api_versions=[
                PeerApiVersion(api_key=key, min_version=first, max_version=last)
                for key, (first, last) in sorted(SERVED_TO_PEERS.items())
            ]
        )

    def _check_user(self, connection: Connection) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED if the connection has logged in, but not as a user for nodes."""
        info = connection.info
        if info.sasl_mechanism and not info.access.allows_of_cluster(AclOperation.CLUSTER_ACTION):
            raise KafkaError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"{info.access.principal} needs CLUSTER_ACTION permission on the cluster to log in as a "
                "node: name it in super.users, or add the ACL.",
            )

    def _act_for(self, connection: Connection, request: ActForRequest) -> ActForResponse:
        """Answer one step with which a node proves its identity and names the caller of its REST API."""
        acting = self._acting
        assert acting is not None
        challenge, connection.peer_challenge = connection.peer_challenge, None
        try:
            if connection.info.peer_id != NO_PEER:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "A node cannot act for a caller as a peer.")
            if not isinstance(challenge, ActingChallenge):
                # The secret with which a node proves its identity to itself never leaves this process.
                if request.node_id != acting.identity().node_id:
                    self._check_certificate(connection, request.node_id)
                self._check_user(connection)
                response, connection.peer_challenge = act_for.answer_hello(request, acting)
                return response
            connection.act_for(act_for.check_caller(request, challenge, acting))
        except KafkaError as error:
            host = connection.info.client_host
            message = "A client at %s that claims to be a node was rejected: %s"
            self._lines.log(logging.WARNING, host, message, host, error.detail)
            self._audit.failed_login("", host, connection.info.listener_name, PEER_MECHANISM, error.detail)
            return ActForResponse(error_code=error.code, error_message=error.detail)
        return ActForResponse()

    def _check_certificate(self, connection: Connection, node_id: int) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED if the connection has TLS, but not the certificate of that node.

        Where nodes log in, they need not show a certificate.
        """
        security = self._state.config.listener_security.get(connection.info.listener_name)
        if security is None or self._gate is None:
            return
        names = connection.certificate_names()
        if security.has_logins and not names:
            return
        if security.checks_names or not names:
            hosts = () if security.needs_node_id else self._gate.hosts_of(node_id)
            check_certificate_names(names, node_id, hosts)
