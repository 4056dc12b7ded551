"""The view that probes, metrics and the REST API have of a node while it starts, serves and stops."""

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
    """The parts of a node with which its REST API authenticates clients and acts on their behalf."""

    acting: ActingSecrets
    access_of: Callable[[str, str], Access]  # the rights of a principal from an address; on the loop
    failed_logins: FailedLogins  # of all listeners
    false_credentials: FalseCredentials  # of users that do not exist
    logins: LoginCounts = field(default_factory=LoginCounts)  # to the REST API; only its thread changes them
    # Called for each failed login, in the thread of the API: user, address, listener, mechanism and reason.
    on_failed_login: Callable[[str, str, str, str, str], object] = lambda *args: None
    unique: Callable[[int], bytes]  # returns n unpredictable bytes
    login: Callable[[], SaslLogin | None] = lambda: None  # of this node at other nodes; None without logins


class NodeView:
    """The parts of a node that have been made so far; read on the node's loop."""

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
        self.quorum_services: QuorumServices | None = None  # None until the metadata quorum is found
        self._services: Services | None = None

    @property
    def config(self) -> BrokerConfig:
        """The current settings."""
        return self.state.config

    @property
    def has_services(self) -> bool:
        """True once the logs are open, so that there are `services`."""
        return self._services is not None

    @property
    def services(self) -> Services:
        """The parts that serve clients; read them only if `has_services`."""
        assert self._services is not None, "the logs of the node are not open yet"
        return self._services

    def set_token_verifier(self, verify: Callable[[str], VerifiedToken] | None) -> None:
        """Make the REST API accept the tokens that `verify` accepts, in any thread; none if it is None."""
        self.verify_token = verify

    def serves_peers(self, services: QuorumServices) -> None:
        """Show the metadata and the other parts that serve peers."""
        self.quorum_services = services

    def serves_clients(self, services: Services) -> None:
        """Show all parts, those that serve clients too."""
        self._services = services
