"""The TLS contexts of a listener for its connections; made elsewhere, and replaced while the node runs."""

import ssl
from collections.abc import Callable
from typing import NamedTuple


class ServerTls(NamedTuple):
    """The server's side of TLS, for new connections."""

    context: ssl.SSLContext
    # Returns the principal of a client with that certificate (DER), or without one. PermissionError, with the
    # reason, if the client is refused. It may take a while, so it is called in a thread.
    principal_of: Callable[[bytes | None], str]
    # The context to dial such a listener of another node; None without a truststore.
    dialling: ssl.SSLContext | None = None
    linking: ssl.SSLContext | None = None  # the context for links among voters, which name their protocol


class DialTls(NamedTuple):
    """The dialling side of TLS between nodes."""

    context: ssl.SSLContext
    checks_names: bool  # whether the certificate of a node must name it
    needs_node_id: bool = False  # by its id: its host is not enough


class ListenerTls:
    """The current TLS of a listener. New connections take it; open ones keep theirs."""

    __slots__ = ("current",)

    def __init__(self, current: ServerTls) -> None:
        self.current = current

    @property
    def asks_for_certificates(self) -> bool:
        """Return True if clients may authenticate by a certificate."""
        return self.current.context.verify_mode is not ssl.CERT_NONE
