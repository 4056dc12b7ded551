"""Certificates and files of a configuration, as they lie on a disk."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from ottla.node.doctor.look_at_security import look_at_files, look_at_tls
from ottla.node.settings.config import BrokerConfig, parse_config

NOW = datetime.now(UTC)


def config(
    home: Path, *, name: str = "node-3", trusted: trustme.CA | None = None, **how: object
) -> BrokerConfig:
    """Return a configuration of node 3, whose certificate has that name; it trusts its own authority."""
    ca = trustme.CA()
    issued = ca.issue_cert(name, common_name=name, **how)  # type: ignore[arg-type]
    issued.private_key_and_cert_chain_pem.write_to_path(str(home / "node.pem"))
    (trusted or ca).cert_pem.write_to_path(str(home / "ca.pem"))
    return parse_config(
        {
            "node.id": "3",
            "listeners": "INNER://127.0.0.1:9092",
            "listener.security.protocol.map": "INNER:SSL",
            "inter.broker.listener.name": "INNER",
            "ssl.keystore.location": str(home / "node.pem"),
            "ssl.truststore.location": str(home / "ca.pem"),
            "cluster.secret": "sixteen characters",
        }
    )


def test_a_certificate_that_other_nodes_take_is_well(tmp_path: Path) -> None:
    (facts,) = look_at_tls(config(tmp_path), NOW)

    assert facts == ("INNER", "", "", "", "", "")


def test_a_name_that_is_none_of_the_node_is_told(tmp_path: Path) -> None:
    (facts,) = look_at_tls(config(tmp_path, name="node-4"), NOW)

    assert (
        "was issued for node-4, so other nodes refuse it: it must name node-3 or 127.0.0.1" in facts.problem
    )


def test_a_truststore_that_does_not_have_the_authority_is_told(tmp_path: Path) -> None:
    (facts,) = look_at_tls(config(tmp_path, trusted=trustme.CA()), NOW)

    assert "unable to get local issuer certificate" in facts.distrust


@pytest.mark.parametrize(("days", "words"), [(-1, ("expired on", "")), (10, ("", "expires in 9 days"))])
def test_a_certificate_that_ends_is_told(tmp_path: Path, days: int, words: tuple[str, str]) -> None:
    (facts,) = look_at_tls(config(tmp_path, not_after=NOW + timedelta(days=days)), NOW)

    assert words[0] in facts.problem and words[1] in facts.warning
    assert bool(facts.problem) == bool(words[0]) and bool(facts.warning) == bool(words[1])


def test_a_store_that_is_missing_is_told_and_no_failure(tmp_path: Path) -> None:
    made = config(tmp_path)
    (tmp_path / "node.pem").unlink()

    (facts,) = look_at_tls(made, NOW)

    assert "node.pem" in facts.error
    assert [one.path for one in look_at_files(made, [])] == []


def test_modes_are_told_of_keys_and_of_settings_with_secrets(tmp_path: Path) -> None:
    made, written = config(tmp_path), tmp_path / "server.properties"
    written.touch(0o644)
    (tmp_path / "node.pem").chmod(0o640)

    found = {one.path: oct(one.mode) for one in look_at_files(made, [written])}

    assert found == {str(tmp_path / "node.pem"): "0o640", str(written): "0o644"}
    without_secrets = parse_config({"listeners": "PLAINTEXT://127.0.0.1:9092"})
    assert look_at_files(without_secrets, [written]) == []
