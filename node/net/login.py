"""The interfaces by which connections and listeners see logins; SASL itself is `kafka_api/sasl_gate`."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

# Takes a failed login: the claimed user (or ""), address, listener, mechanism, and a reason without secrets.
OnFailedLogin = Callable[[str, str, str, str, str], None]
C_contra = TypeVar("C_contra", contravariant=True)  # a connection

LOGIN_SECONDS = 10.0  # for a login, from the start of the connection or from SaslHandshake of a later login


class LoginCounts:
    """Counters of logins at a listener since the node started; with TLS alone, of handshakes."""

    __slots__ = ("expired", "failed", "failed_again", "successful", "successful_again")

    def __init__(self) -> None:
        self.successful = 0
        self.failed = 0
        self.successful_again = 0  # of clients that had logged in before on the same connection
        self.failed_again = 0
        self.expired = 0  # connections whose client did not log in again in time

    def by_name(self) -> dict[str, int]:
        """Return the current counts by name."""
        return {name: getattr(self, name) for name in self.__slots__}


class FailureLimits(Protocol):
    """Limits how often the clients of an address may fail to authenticate; times are the loop's."""

    def is_refused(self, address: str, now_s: float) -> bool:
        """Return True while connections from an address are refused without a check."""
        ...

    def note(self, address: str, now_s: float) -> float:
        """Count a failure; return the delay of its answer, in seconds."""
        ...


class NoFailureLimits:
    """The limits of a listener that has none."""

    def is_refused(self, address: str, now_s: float) -> bool:
        """Return False: no address is refused."""
        return False

    def note(self, address: str, now_s: float) -> float:
        """Return 0: no answer is delayed."""
        return 0.0


class Login(Protocol):
    """The login of one connection, while it is under way or may expire."""

    def connection_ended(self) -> None:
        """Forget the login; a client that has sent a token and leaves before the end has failed to log in."""
        ...


class LoginGate(Protocol, Generic[C_contra]):
    """The login of a listener's clients."""

    counts: LoginCounts

    def begin(self, connection: C_contra) -> None:
        """Serve a new connection nothing else until its client has logged in."""
        ...
