"""Certificates for nodes and clients, in the PEM files that `ssl.keystore.location` names."""

import ssl
from pathlib import Path
from typing import Any

import trustme


class Authority:
    """A CA, and certificates of it in files."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.ca = trustme.CA()
        self.ca.cert_pem.write_to_path(str(home / "ca.pem"))

    def issue(self, name: str, *hosts: str, ca: trustme.CA | None = None, **options: Any) -> Path:
        """Replace NAME.pem with a new key and a certificate, atomically; it is for 127.0.0.1 by default."""
        path = self.home / f"{name}.pem"
        issued = (ca or self.ca).issue_cert(
            *(hosts or ("127.0.0.1",)), common_name=name, organization_unit_name="unit", **options
        )
        fresh = path.with_suffix(".fresh")
        fresh.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
        fresh.rename(path)
        return path

    def context(self, name: str | None = None) -> ssl.SSLContext:
        """Return the TLS context of a client that trusts the CA; `name` is the certificate that it sends."""
        context = ssl.create_default_context(cafile=str(self.home / "ca.pem"))
        if name is not None:
            context.load_cert_chain(self.issue(name))
        return context


def write_certificates(directory: Path, *names: str) -> Path:
    """Write `ca.pem`, and NAME.pem with a key and a certificate for each name."""
    return _write(directory, trustme.CA(), {name: name for name in names})


def write_forged(directory: Path, **names: str) -> Path:
    """Write FILE.pem with a certificate for a name, by a CA that no node trusts."""
    return _write(directory, trustme.CA(), names, authority="other-ca")


def _write(directory: Path, ca: trustme.CA, names: dict[str, str], authority: str = "ca") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    ca.cert_pem.write_to_path(str(directory / f"{authority}.pem"))
    for file, name in names.items():
        issued = ca.issue_cert(name).private_key_and_cert_chain_pem
        issued.write_to_path(str(directory / f"{file}.pem"))
    return directory
