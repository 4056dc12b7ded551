"""One authentication by a mechanism of SASL, as a connection carries it out."""

from typing import Protocol


class Exchange(Protocol):
    """The server's side of one authentication; any of the mechanisms."""

    is_slow: bool  # takes more than a millisecond, so that it is done in a thread
    is_complete: bool
    user: str  # once the client has said who it is; proven when it is complete
    expires_ms: int | None  # when what the client showed ends, None for never

    def respond(self, token: bytes) -> bytes:
        """Return the answer to the client's next message; SaslError where the authentication has failed."""
        ...
