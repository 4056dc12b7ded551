"""Logins of clients, as connections and listeners see them; SASL itself is `kafka_api/sasl_gate`."""

from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

# Takes a login that failed: user as claimed (or empty), address, listener, mechanism, reason without secrets.
OnFailedLogin = Callable[[str, str, str, str, str], None]
C_contra = TypeVar("C_contra", contravariant=True)  # a connection

LOGIN_SECONDS = 10.0  # from the first byte until a client must have logged in


class LoginCounts:
    """The numbers of logins at a listener since the node started."""

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


NO_LOGINS: Final = LoginCounts()  # of a listener whose clients need not log in


class Login(Protocol):
    """The login of one connection, while there is one under way or it may end."""

    def end(self) -> None:
        """Forget it: the connection has ended."""
        ...


class LoginGate(Protocol, Generic[C_contra]):
    """Lets the clients of a listener log in."""

    counts: LoginCounts

    def begin(self, connection: C_contra) -> None:
        """Serve a new connection nothing else until its client has logged in."""
        ...
