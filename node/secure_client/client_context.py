"""From the settings of a client to a context of `ssl`. It reads files, so it is never done on the loop.

A context is made once for the same settings and files: a file that is renewed is seen at the next connection.
"""

import ssl
from functools import lru_cache
from typing import Final

from ottla.node.secure_client.client_security import ClientTls
from ottla.node.tls.cipher_suites import allows_tls_1_2, allows_tls_1_3, openssl_suites
from ottla.node.tls.key_store import Stamp, read_authorities, read_key_pair, stamps_of
from ottla.node.tls.pem_store import load_authorities
from ottla.node.tls.store_settings import TLS_1_2, TLS_1_3

MAX_CONTEXTS: Final = 16  # of a process; one for each cluster that it knows


def client_context(tls: ClientTls) -> ssl.SSLContext:
    """Return the context of these settings; INVALID_CONFIG, with file or setting, if it cannot be made."""
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
    # A truststore may hold any certificate, as in Java: not only authorities that have signed themselves.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Java's clients take authorities without key usage, which OpenSSL's strict mode (Python 3.13) refuses.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if tls.truststore is None:
        context.load_default_certs()
    else:
        authorities = read_authorities(tls.truststore)
        load_authorities(context, authorities.pem, authorities.source)
    if tls.keystore is not None:
        read_key_pair(tls.keystore).load_into(context)
    return context
