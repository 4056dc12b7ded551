"""Keys and certificates as PEM, in the forms that Java takes."""

import ssl
from collections.abc import Callable

import pytest
import trustme

from ottla.node.tls.pem_store import certificates_in, key_pair, load_authorities


def in_one_line(pem: bytes) -> bytes:
    return pem.strip().replace(b"\n", b" ")


def with_carriage_returns(pem: bytes) -> bytes:
    return pem.replace(b"\n", b"\r\n")


@pytest.mark.parametrize("written", [bytes, in_one_line, with_carriage_returns])
def test_keys_and_certificates_may_have_any_line_ends_or_stand_in_one_line(
    written: Callable[[bytes], bytes],
) -> None:
    """In a properties file or in an option, PEM has to stand in one line."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    chain = b"".join(one.bytes() for one in issued.cert_chain_pems)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    key = written(issued.private_key_pem.bytes())
    key_pair(chain=written(chain), key=key, key_password=None, source="x").load_into(context)
    load_authorities(context, written(authority.cert_pem.bytes()), "x")

    assert len(context.get_ca_certs()) == 1


def test_certificates_stay_in_their_order() -> None:
    one, other = (trustme.CA().cert_pem.bytes() for _ in range(2))

    found = certificates_in(in_one_line(one) + b" " + in_one_line(other), "x")

    assert [each.split() for each in found] == [one.split(), other.split()]
