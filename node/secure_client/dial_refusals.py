"""The errors for failed TLS handshakes and for connections closed before a login, with reason and remedy."""

import ssl
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError

# OpenSSL's reasons, as Python spells them.
_NO_VERSION: Final = "both ends have no version of TLS in common (ssl.enabled.protocols)"
_ALERTS: Final = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it asks for a certificate of this client; set "
    "ssl.keystore.location",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust this client's certificate (ssl.keystore.location)",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses this client's certificate, or asks for one "
    "(ssl.keystore.location)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this client's certificate has expired (ssl.keystore.location)",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it refuses this client's certificate (ssl.keystore.location)",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "both ends have no cipher suite in common (ssl.cipher.suites), or "
    "it asks for a certificate of this client (ssl.keystore.location)",
    "TLSV1_ALERT_PROTOCOL_VERSION": _NO_VERSION,
    "UNSUPPORTED_PROTOCOL": _NO_VERSION,
    "NO_PROTOCOLS_AVAILABLE": _NO_VERSION,
}
_CUT: Final = "UNEXPECTED_EOF_WHILE_READING"
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")


def tls_refusal(peer: str, error: ssl.SSLError) -> KafkaError:
    """Return the error for a failed handshake. It is retriable only if the connection was closed."""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError) or error.reason == _CUT:
        return handshake_cut(peer)
    return KafkaError(ErrorCode.INVALID_CONFIG, f"no TLS connection to {peer}: {_reason(error)}")


def handshake_cut(peer: str) -> KafkaError:
    """Return the error for a connection that was closed during the handshake without an alert."""
    return KafkaError(
        ErrorCode.NETWORK_EXCEPTION,
        f"{peer} closed the connection during the TLS handshake; it may not be a listener with TLS",
    )


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_certificate(error.verify_message.rstrip("."))
    reason = error.reason or ""
    if reason in _NO_TLS:
        return (
            "the server there does not use TLS; use the address of a listener with TLS, or set "
            "security.protocol to PLAINTEXT or SASL_PLAINTEXT"
        )
    return _ALERTS.get(reason) or reason.lower().replace("_", " ") or str(error)


def _of_certificate(reason: str) -> str:
    lower = reason.lower()
    if "mismatch" in lower:
        return (
            f"{reason[:1].lower()}{reason[1:]}; use a host name that the certificate has, and let the "
            "cluster advertise such names (advertised.listeners)"
        )
    if "expired" in lower or "not yet valid" in lower:
        return f"its {reason}; the certificate must be renewed, or the clock of this machine is wrong"
    return (
        f"its certificate is not trusted ({reason}); set ssl.truststore.location to a file with the "
        "certificate of its authority"
    )


def without_login(peer: str) -> KafkaError:
    """Return the error for a node that answered ApiVersions and closed the connection at the next request."""
    return KafkaError(
        ErrorCode.ILLEGAL_SASL_STATE,
        f"{peer} closed the connection at the first request; a SASL listener does that to clients that "
        "do not log in (security.protocol, sasl.mechanism, sasl.jaas.config)",
    )


def may_retry_once(error: KafkaError) -> bool:
    """Return True if an error looks like a missing login, but may come from a node that was stopping."""
    return error.code is ErrorCode.ILLEGAL_SASL_STATE and "at the first request" in error.detail
