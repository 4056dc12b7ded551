"""`ottla secure`: certificates that a running node accepts."""

import ssl
from pathlib import Path

import pytest

from ottla.node.cli import secure_commands
from ottla.node.security.distinguished_name import host_names


def names(path: Path) -> set[str]:
    text = path.read_text()
    return set(host_names(ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])))


def renew(directory: Path, *hosts: str) -> None:
    secure_commands.certificate(
        directory, node_id=0, client=None, hosts=hosts, out=None, is_renewal=True, as_json=False
    )


@pytest.mark.slow
def test_a_renewed_certificate_keeps_the_hosts_of_the_old_one(tmp_path: Path) -> None:
    secure_commands.init(
        tmp_path, nodes=1, hosts=["kafka-0.example.com", "10.0.0.7"], bootstrap="", as_json=False
    )
    own = tmp_path / "node-0.pem"
    before = own.read_bytes()

    renew(tmp_path, "new.example.com")

    assert own.read_bytes() != before
    assert {"node-0", "localhost", "kafka-0.example.com", "10.0.0.7", "new.example.com"} <= names(own)


@pytest.mark.slow
@pytest.mark.parametrize("content", ["damaged", ""])
def test_a_damaged_certificate_is_renewed_too(tmp_path: Path, content: str) -> None:
    secure_commands.init(tmp_path, nodes=1, hosts=[], bootstrap="", as_json=False)
    own = tmp_path / "node-0.pem"
    own.write_text(content)

    renew(tmp_path)

    assert {"node-0", "localhost"} <= names(own)
