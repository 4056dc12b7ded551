"""Resolves an address, connects to it, and sends ApiVersions 0, the oldest request that every broker answers.

The first bytes of the response show the protocol. If there is no response, TLS and HTTP are tried, too, each
over a new connection.
"""

import asyncio
import socket
import ssl
from typing import Final

from ottla.logstore.words.dial_errors import dial_problem, is_refused
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.raft_handshake import read_welcome
from ottla.node.doctor.endpoint_facts import EndpointFacts, Speaks
from ottla.node.secure_client.dial_refusals import handshake_cut, tls_refusal
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey

# ApiVersions, version 0, correlation id 1, from "ottla-doctor", without a body.
_BODY: Final = b"\x00\x12\x00\x00\x00\x00\x00\x01\x00\x0cottla-doctor"
QUESTION: Final = len(_BODY).to_bytes(4, "big") + _BODY
MAX_ANSWER_BYTES: Final = 64 * 1024  # a response to ApiVersions has some 600
FIRST_BYTES: Final = 8  # of a response: its size and correlation id, or the beginning of TLS or HTTP
_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")  # alert, handshake


async def try_endpoint(
    host: str, port: int, *, timeout_s: float, tls: ssl.SSLContext | None = None
) -> EndpointFacts:
    """Return the facts about an address, over TLS if `tls` is given. Raises nothing."""
    loop = asyncio.get_running_loop()
    facts = EndpointFacts(host, port)
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return facts._replace(speaks=Speaks.UNRESOLVED, reason=reason)
    facts = facts._replace(addresses=list(dict.fromkeys(str(one[4][0]) for one in found)))
    try:
        answer, certificate = await _exchange(host, port, QUESTION, timeout_s, tls)
    except ssl.SSLError as error:
        return facts._replace(speaks=Speaks.DENIED, reason=tls_refusal(facts.name, error).detail)
    except TimeoutError:
        return facts._replace(reason=f"no connection within {timeout_s:g} s")
    except OSError as error:
        if is_refused(error):
            return facts._replace(speaks=Speaks.REFUSED)
        if tls is not None and isinstance(error, ConnectionResetError | ConnectionAbortedError):
            return facts._replace(speaks=Speaks.DENIED, reason=handshake_cut(facts.name).detail)
        return facts._replace(reason=dial_problem(error))
    facts = with_answer(facts, answer)._replace(certificate=certificate)
    if facts.speaks is Speaks.TLS and tls is None:
        return facts._replace(certificate=await _shown_by_tls(host, port, timeout_s) or b"")
    if facts.speaks is Speaks.SILENT and tls is None:
        shown = await _shown_by_tls(host, port, timeout_s)
        if shown is not None:
            return facts._replace(speaks=Speaks.TLS, certificate=shown)
        try:
            answer, _ = await _exchange(host, port, b"GET / HTTP/1.0\r\n\r\n", timeout_s)
            if answer.startswith(b"HTTP/"):
                return facts._replace(speaks=Speaks.HTTP)
        except (OSError, TimeoutError):
            pass
    return facts


async def try_certificate(host: str, port: int, *, timeout_s: float) -> EndpointFacts:
    """Return an address with its certificate, which is not verified. Raises nothing."""
    facts = EndpointFacts(host, port)
    shown = await _shown_by_tls(host, port, timeout_s)
    return facts if shown is None else facts._replace(speaks=Speaks.TLS, certificate=shown)


def with_answer(facts: EndpointFacts, answer: bytes) -> EndpointFacts:
    if not answer:
        return facts._replace(speaks=Speaks.SILENT)
    if answer[:2] in _TLS_RECORDS:
        return facts._replace(speaks=Speaks.TLS)
    if answer.startswith(b"HTTP/"):
        return facts._replace(speaks=Speaks.HTTP)
    try:
        correlation_id, response = codec.decode_response(ApiKey.API_VERSIONS, 0, memoryview(answer[4:]))
    except KafkaError:
        return facts._replace(speaks=Speaks.CONTROLLER if _is_refusal(answer) else Speaks.OTHER)
    if correlation_id != 1 or len(answer) != 4 + int.from_bytes(answer[:4], "big"):
        return facts._replace(speaks=Speaks.CONTROLLER if _is_refusal(answer) else Speaks.OTHER)
    versions = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    return facts._replace(speaks=Speaks.KAFKA, versions=versions)


def _is_refusal(answer: bytes) -> bool:
    """Return True if an answer is the one of an Ottla controller listener to a client that is not a voter."""
    if len(answer) != 4 + int.from_bytes(answer[:4], "big"):
        return False
    try:
        read_welcome(answer[4:])
    except KafkaError as error:
        # An unreadable answer raises another error code.
        return error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return False


async def _exchange(
    host: str, port: int, question: bytes, timeout_s: float, tls: ssl.SSLContext | None = None
) -> tuple[bytes, bytes]:
    """Return the answer to `question`, and with TLS the certificate of the other end (DER).

    It is a whole response of the Kafka protocol, or the first bytes of anything else, or empty.
    """
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    shown = _certificate_of(writer)
    try:
        writer.write(question)
        async with asyncio.timeout(timeout_s):
            first = await _read(reader, FIRST_BYTES)
            size = int.from_bytes(first[:4], "big")
            if len(first) < FIRST_BYTES or not FIRST_BYTES - 4 <= size <= MAX_ANSWER_BYTES:
                return first, shown
            return first + await _read(reader, size + 4 - FIRST_BYTES), shown
    except (OSError, TimeoutError):
        return b"", shown
    finally:
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader, count: int) -> bytes:
    try:
        return await reader.readexactly(count)
    except asyncio.IncompleteReadError as error:
        return error.partial


def _certificate_of(writer: asyncio.StreamWriter) -> bytes:
    """Return the certificate of the other end (DER); empty without TLS."""
    tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    return b"" if tls is None else tls.getpeercert(binary_form=True) or b""


async def _shown_by_tls(host: str, port: int, timeout_s: float) -> bytes | None:
    """Return the unverified certificate of a TLS handshake (DER); None if the address does not speak TLS."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
        shown = _certificate_of(writer)
        writer.transport.abort()
        return shown
    except ssl.SSLError as error:
        # An alert also shows that the other end speaks TLS; it may require a client certificate.
        return b"" if "ALERT" in (error.reason or "") else None
    except (OSError, TimeoutError):
        return None


async def has_address(host: str) -> bool:
    """Return True if this machine can listen at this address."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host or None, 0, flags=socket.AI_PASSIVE)
        with socket.socket(found[0][0], socket.SOCK_STREAM) as probe:
            probe.bind(found[0][4])
        return True
    except OSError:
        return False
