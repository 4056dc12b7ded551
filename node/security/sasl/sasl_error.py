"""Why an authentication fails."""

from typing import Final

# Kafka's words.
OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class SaslError(Exception):
    """An authentication that failed; the text goes to the log.

    The client is told `told`, and where that is empty only that its credentials are invalid.
    """

    def __init__(self, reason: str, *, told: str = "") -> None:
        super().__init__(reason)
        self.told = told
