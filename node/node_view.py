"""A node as probes, metrics and the REST API see it while it starts, serves and stops."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ottla.node.authorization.access import Access
from ottla.node.handing_over import StartTask
from ottla.node.net.act_for import ActingSecrets
from ottla.node.net.listener import Listener
from ottla.node.net.login import LoginCounts
from ottla.node.node_state import NodeState
from ottla.node.secure_client.client_security import SaslLogin
from ottla.node.security.access_token import VerifiedToken
from ottla.node.security.sasl.failed_logins import FailedLogins
from ottla.node.security.sasl.false_credentials import FalseCredentials
from ottla.node.security.security_reload import SecurityReload
from ottla.node.services import QuorumServices, Services
from ottla.node.settings.config import BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RestDoors:
    """The parts of a node by which its REST API knows its clients and acts for them."""

    acting: ActingSecrets
    access_of: Callable[[str, str], Access]  # the rights of a principal from an address; for the loop
    failed_logins: FailedLogins  # of all listeners
    false_credentials: FalseCredentials  # of users that do not exist
    logins: LoginCounts = field(default_factory=LoginCounts)  # to the REST API; its thread alone changes it
    # Told each login that failed, in the thread of the API: user, address, listener, mechanism and reason.
    on_failed_login: Callable[[str, str, str, str, str], object] = lambda *told: None
    unique: Callable[[int], bytes]  # n bytes that nobody can guess
    login: Callable[[], SaslLogin | None] = lambda: None  # of this node at others; None where nobody logs in


class NodeView:
    """Holds the parts of a node that are there already; read on the node's loop."""

    def __init__(
        self,
        state: NodeState,
        start_task: StartTask,
        listeners: Sequence[Listener],
        listener_tls: SecurityReload,
        rest: RestDoors,
    ) -> None:
        self.state = state
        self.rest = rest
        self.verify_token: Callable[[str], VerifiedToken] | None = None
        self.listener_tls = listener_tls
        self.start_task = start_task
        self.listeners = listeners
        self.quorum_services: QuorumServices | None = None  # None while it looks for the metadata quorum
        self._services: Services | None = None

    @property
    def config(self) -> BrokerConfig:
        """The settings that are valid now."""
        return self.state.config

    @property
    def has_services(self) -> bool:
        """Return whether the node has come so far that it has `services`."""
        return self._services is not None

    @property
    def services(self) -> Services:
        """What a node has whose logs are open: ask only then."""
        assert self._services is not None, "the logs of the node are not open yet"
        return self._services

    def judges_tokens(self, verify: Callable[[str], VerifiedToken] | None) -> None:
        """Have the REST API take access tokens that `verify` accepts, in any thread; None: it takes none."""
        self.verify_token = verify

    def serves_peers(self, services: QuorumServices) -> None:
        """Show the metadata from now on."""
        self.quorum_services = services

    def serves_clients(self, services: Services) -> None:
        """Show everything from now on."""
        self._services = services
