"""The error of a failed authentication."""

from typing import Final

# Kafka's wording.
OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class SaslError(Exception):
    """The error of a failed authentication, with the reason for the log.

    The keyword argument is the message for the client. If it is empty, the client learns only that its
    credentials are invalid.
    """

    def __init__(self, reason: str, *, message: str = "") -> None:
        super().__init__(reason)
        self.message = message
