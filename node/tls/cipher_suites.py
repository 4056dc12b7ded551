"""Names of cipher suites: `ssl.cipher.suites` uses IANA's, as Java does; OpenSSL has its own for TLS 1.2."""

from collections.abc import Sequence
from typing import Final

# Python can select suites of TLS 1.2 only; OpenSSL always offers these three of TLS 1.3, in this order.
TLS_1_3_SUITES: Final = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
)
_CIPHERS: Final = {
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA": "AES128-SHA",
}
_EXCHANGES: Final = {
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "ECDHE_RSA": "ECDHE-RSA-",
    "DHE_RSA": "DHE-RSA-",
    "RSA": "",
}
# Combinations without a name.
_NONE: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA256",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA384",
    "TLS_RSA_WITH_AES_256_CBC_SHA384",
    "TLS_RSA_WITH_CHACHA20_POLY1305_SHA256",
}
OPENSSL_NAMES: Final = {
    name: openssl_exchange + openssl_cipher
    for exchange, openssl_exchange in _EXCHANGES.items()
    for cipher, openssl_cipher in _CIPHERS.items()
    if (name := f"TLS_{exchange}_WITH_{cipher}") not in _NONE
}


def suites_problem(suites: Sequence[str]) -> str | None:
    """Return the reason why `ssl.cipher.suites` cannot be applied, as the end of a sentence, or None."""
    unknown = [one for one in suites if one not in OPENSSL_NAMES and one not in TLS_1_3_SUITES]
    if unknown:
        return f"the cipher suite {unknown[0][:100]} is not supported."
    missing = [one for one in TLS_1_3_SUITES if one not in suites]
    if 0 < len(missing) < len(TLS_1_3_SUITES):
        return (
            "the suites of TLS 1.3 can only be allowed together; add "
            f"{', '.join(missing)}, or remove TLSv1.3 from ssl.enabled.protocols and its suites from here."
        )
    return None


def allows_tls_1_2(suites: Sequence[str]) -> bool:
    """Return True if any of these suites is one of TLS 1.2, or if there are none, which allows all."""
    return not suites or any(one in OPENSSL_NAMES for one in suites)


def allows_tls_1_3(suites: Sequence[str]) -> bool:
    """Return True if any of these suites is one of TLS 1.3, or if there are none, which allows all."""
    return not suites or any(one in TLS_1_3_SUITES for one in suites)


def openssl_suites(suites: Sequence[str]) -> str:
    """Return the suites of TLS 1.2 in OpenSSL's notation, or "" for its default."""
    return ":".join(OPENSSL_NAMES[one] for one in suites if one in OPENSSL_NAMES)
