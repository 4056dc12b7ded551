"""Certificates for the nodes of a cluster, in the PEM files that `ssl.keystore.location` names."""

from pathlib import Path

import trustme


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
