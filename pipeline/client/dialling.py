"""Sockets to nodes, unencrypted or over TLS, each step with a deadline.

Modules for TLS are imported where they are used: most processes of Spark run for one unencrypted request.
"""

import socket
from collections.abc import Iterable

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.secure_client.client_security import ClientTls
from ottla.pipeline.client.client_settings import ClientSettings
from ottla.pipeline.client.clock import monotonic_ms
from ottla.pipeline.client.first_contact import FirstContact


def dial(host: str, port: int, settings: ClientSettings, contact: FirstContact) -> socket.socket:
    """Return a connected socket, after the TLS handshake if the settings have TLS.

    Raises NETWORK_EXCEPTION if no server answers there in time, INVALID_CONFIG if TLS fails for good.
    """
    peer = f"{host}:{port}"
    deadline_ms = monotonic_ms() + settings.socket_connection_setup_timeout_ms
    try:
        stream = socket.create_connection((host, port), settings.socket_connection_setup_timeout_ms / 1000)
    except OSError as fault:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{peer}: {words_of(fault)}") from None
    except (OverflowError, UnicodeError):  # a port or a name that a node reported
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{peer} is not an address") from None
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, size in (
        (socket.SO_SNDBUF, settings.send_buffer_bytes),
        (socket.SO_RCVBUF, settings.receive_buffer_bytes),
    ):
        if size >= 0:
            stream.setsockopt(socket.SOL_SOCKET, option, size)
    if settings.security.tls is None:
        return stream
    try:
        return _encrypted(stream, host, peer, settings.security.tls, deadline_ms, contact)
    except BaseException:
        stream.close()
        raise


def _encrypted(
    stream: socket.socket, host: str, peer: str, tls: ClientTls, deadline_ms: int, contact: FirstContact
) -> socket.socket:
    import ssl

    from ottla.node.secure_client.client_context import client_context
    from ottla.node.secure_client.dial_refusals import handshake_cut, tls_refusal

    context = client_context(tls)
    stream.settimeout(max(deadline_ms - monotonic_ms(), 1) / 1000)
    try:
        return context.wrap_socket(stream, server_hostname=host)
    except ssl.SSLError as fault:
        refusal = tls_refusal(peer, fault)
    except (ConnectionResetError, ConnectionAbortedError, BrokenPipeError):
        refusal = handshake_cut(peer)
    except TimeoutError:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{peer}: no TLS handshake in time") from None
    except OSError as fault:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{peer}: {words_of(fault)}") from None
    except ValueError:  # a name that no certificate can have
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{peer} is not an address") from None
    if refusal.code is ErrorCode.NETWORK_EXCEPTION:
        refusal = contact.error_of_ended_connection(refusal.detail)
    raise refusal


def send_all(
    stream: socket.socket, buffers: Iterable[bytes | bytearray | memoryview], deadline_ms: int
) -> None:
    """Send buffers until the deadline; raises OSError.

    A peer that reads slowly does not extend the deadline.
    """
    for buffer in buffers:
        with memoryview(buffer).cast("B") as view:
            sent = 0
            while sent < len(view):
                stream.settimeout(_left_s(deadline_ms))
                with view[sent:] as rest:
                    sent += stream.send(rest)


def receive_into(stream: socket.socket, view: memoryview, deadline_ms: int) -> None:
    """Fill the view until the deadline; raises OSError, ConnectionError if the peer ended the connection."""
    filled = 0
    while filled < len(view):
        stream.settimeout(_left_s(deadline_ms))
        with view[filled:] as rest:
            count = stream.recv_into(rest)
        if not count:
            raise ConnectionError("it closed the connection")
        filled += count


def is_quiet(stream: socket.socket) -> bool:
    """Return True if an idle socket is open and has nothing to read, as it should between requests."""
    stream.settimeout(0)
    try:
        if hasattr(stream, "context"):  # over TLS: this reads what TLS itself has sent, and keeps it
            import ssl

            try:
                stream.recv(1)
            except ssl.SSLWantReadError:
                return True
        else:
            stream.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return True
    except OSError:
        pass
    return False  # the peer ended it while it was idle, or sent an answer without a request


def words_of(fault: OSError) -> str:
    """Return a description of a socket error."""
    if isinstance(fault, TimeoutError):
        return "no answer in time"
    return fault.strerror or str(fault) or type(fault).__name__


def _left_s(deadline_ms: int) -> float:
    left_ms = deadline_ms - monotonic_ms()
    if left_ms <= 0:
        raise TimeoutError
    return left_ms / 1000
