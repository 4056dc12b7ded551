"""The TLS of a listener, as its connections use it; made elsewhere, and replaced while the node runs."""

import ssl
from collections.abc import Callable
from typing import NamedTuple


class ServerTls(NamedTuple):
    """The server's side of TLS, for connections that come from now on."""

    context: ssl.SSLContext
    # The principal of who showed that certificate (DER), or none. PermissionError, with the reason, if nobody
    # may come in with it. It may take a while, so it is called in a thread.
    principal_of: Callable[[bytes | None], str]
    # By which this node dials such a listener of another node; None without a truststore.
    dialling: ssl.SSLContext | None = None
    linking: ssl.SSLContext | None = None  # the same for links among voters, which name their protocol


class DialTls(NamedTuple):
    """The dialling side of TLS between nodes."""

    context: ssl.SSLContext
    checks_names: bool  # whether the certificate of a node must name it
    needs_node_id: bool = False  # by its id: a host is not enough


class ListenerTls:
    """Holds the current TLS of a listener. New connections take it; those that are open keep theirs."""

    __slots__ = ("current",)

    def __init__(self, current: ServerTls) -> None:
        self.current = current

    @property
    def asks_for_certificates(self) -> bool:
        """Return whether a client may prove who it is by a certificate."""
        return self.current.context.verify_mode is not ssl.CERT_NONE
