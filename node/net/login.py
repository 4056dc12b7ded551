"""Logins of clients, as connections and listeners see them; SASL itself is `kafka_api/sasl_gate`."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

# Takes a login that failed: user as claimed (or empty), address, listener, mechanism, reason without secrets.
OnFailedLogin = Callable[[str, str, str, str, str], None]
C_contra = TypeVar("C_contra", contravariant=True)  # a connection

LOGIN_SECONDS = 10.0  # from the first byte until a client must have logged in


class LoginCounts:
    """The numbers of logins at a listener since the node started; of one with TLS alone, of handshakes."""

    __slots__ = ("expired", "failed", "failed_again", "successful", "successful_again")

    def __init__(self) -> None:
        self.successful = 0
        self.failed = 0
        self.successful_again = 0  # of clients that had logged in before over the connection
        self.failed_again = 0
        self.expired = 0  # connections whose client did not log in again in time

    def by_name(self) -> dict[str, int]:
        """Return all counts as they are now."""
        return {name: getattr(self, name) for name in self.__slots__}


class FailureLimits(Protocol):
    """Limits how often clients of one address may fail to prove who they are; times are the loop's."""

    def is_refused(self, address: str, now_s: float) -> bool:
        """Return whether what comes from an address is not looked at for now."""
        ...

    def note(self, address: str, now_s: float) -> float:
        """Count a failure; return how long its answer is to wait, in seconds."""
        ...


class NoFailureLimits:
    """The limits of a listener that has none."""

    def is_refused(self, address: str, now_s: float) -> bool:
        """Return that everybody is looked at."""
        return False

    def note(self, address: str, now_s: float) -> float:
        """Return that nobody waits."""
        return 0.0


class Login(Protocol):
    """The login of one connection, while there is one under way or it may end."""

    def connection_ended(self) -> None:
        """Forget it; a client that leaves in the midst of it has failed to log in."""
        ...


class LoginGate(Protocol, Generic[C_contra]):
    """Lets the clients of a listener log in."""

    counts: LoginCounts

    def begin(self, connection: C_contra) -> None:
        """Serve a new connection nothing else until its client has logged in."""
        ...
