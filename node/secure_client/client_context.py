"""Makes a TLS context from the settings of a client. It reads files, so it must not be called on the loop.

Contexts are cached by settings and file stamps, so the next connection uses a renewed file.
"""

import ssl
from functools import lru_cache
from typing import Final

from ottla.node.secure_client.client_security import ClientTls
from ottla.node.tls.cipher_suites import allows_tls_1_2, allows_tls_1_3, openssl_suites
from ottla.node.tls.key_store import Stamp, read_authorities, read_key_pair, stamps_of
from ottla.node.tls.pem_store import load_authorities
from ottla.node.tls.store_settings import TLS_1_2, TLS_1_3

MAX_CONTEXTS: Final = 16  # of a process, one for each cluster that it connects to


def client_context(tls: ClientTls) -> ssl.SSLContext:
    """Return the context for these settings; INVALID_CONFIG, with file or setting, if it cannot be made."""
    return _context(tls, stamps_of((tls.keystore, tls.truststore)))


@lru_cache(maxsize=MAX_CONTEXTS)
def _context(tls: ClientTls, _stamps: tuple[Stamp | None, ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks certificates and names
    context.check_hostname = tls.checks_host_names
    suites = tls.cipher_suites
    with_1_2 = TLS_1_2 in tls.enabled_protocols and allows_tls_1_2(suites)
    with_1_3 = TLS_1_3 in tls.enabled_protocols and allows_tls_1_3(suites)
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if with_1_2 else ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3 if with_1_3 else ssl.TLSVersion.TLSv1_2
    if with_1_2 and (names := openssl_suites(suites)):
        context.set_ciphers(names)
    # As in Java, a truststore may contain any certificate, not only self-signed authorities.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Java's clients accept authorities without key usage; OpenSSL's strict mode (Python 3.13) rejects them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if tls.truststore is None:
        context.load_default_certs()
    else:
        authorities = read_authorities(tls.truststore)
        load_authorities(context, authorities.pem, authorities.source)
    if tls.keystore is not None:
        read_key_pair(tls.keystore).load_into(context)
    return context
