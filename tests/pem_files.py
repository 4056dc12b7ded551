"""PEM files for TLS in the tests, in the one form of private keys that Java reads."""

from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


def write_pem(folder: Path, name: str, authority: trustme.CA, **options: Any) -> None:
    """Issue a certificate for 127.0.0.1, and write its key (PKCS #8) and its chain to `{name}.pem`."""
    issued = authority.issue_cert("127.0.0.1", common_name=name, **options)
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = b"".join(one.bytes() for one in issued.cert_chain_pems)
    (folder / f"{name}.pem").write_bytes(pem + chain)
