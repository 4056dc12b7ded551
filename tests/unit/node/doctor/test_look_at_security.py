"""ottla.node.doctor.look_at_security: certificates and secret files of a configuration on disk."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from ottla.node.doctor.look_at_security import look_at_files, look_at_tls, look_at_trust
from ottla.node.settings.config import BrokerConfig, parse_config

NOW = datetime.now(UTC)


def config(
    home: Path, *, name: str = "node-3", trusted: trustme.CA | None = None, **how: object
) -> BrokerConfig:
    """Return a configuration of node 3 with a certificate for this name; it trusts its own authority."""
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


def test_a_certificate_that_other_nodes_accept_has_no_problem(tmp_path: Path) -> None:
    (facts,) = look_at_tls(config(tmp_path), NOW)

    assert facts == ("INNER", "", "", "", "", "", "")


def test_a_certificate_with_another_nodes_name_is_reported(tmp_path: Path) -> None:
    (facts,) = look_at_tls(config(tmp_path, name="node-4"), NOW)

    assert (
        "was issued for node-4, so other nodes refuse it: it must name node-3 or 127.0.0.1" in facts.problem
    )


def test_a_truststore_without_the_authority_is_reported(tmp_path: Path) -> None:
    (facts,) = look_at_tls(config(tmp_path, trusted=trustme.CA()), NOW)

    assert "unable to get local issuer certificate" in facts.rejection


@pytest.mark.parametrize(("days", "words"), [(-1, ("expired on", "")), (10, ("", "expires in 9 days"))])
def test_a_certificate_that_expires_is_reported(tmp_path: Path, days: int, words: tuple[str, str]) -> None:
    (facts,) = look_at_tls(config(tmp_path, not_after=NOW + timedelta(days=days)), NOW)

    assert words[0] in facts.problem and words[1] in facts.warning
    assert bool(facts.problem) == bool(words[0]) and bool(facts.warning) == bool(words[1])


def test_a_missing_keystore_is_reported_and_raises_nothing(tmp_path: Path) -> None:
    made = config(tmp_path)
    (tmp_path / "node.pem").unlink()

    (facts,) = look_at_tls(made, NOW)

    assert "node.pem" in facts.error
    assert [one.path for one in look_at_files(made, [])] == []


def test_modes_of_keys_and_of_settings_with_secrets_are_returned(tmp_path: Path) -> None:
    made, written = config(tmp_path), tmp_path / "server.properties"
    written.touch(0o644)
    (tmp_path / "node.pem").chmod(0o640)

    found = {one.path: oct(one.mode) for one in look_at_files(made, [written])}

    assert found == {str(tmp_path / "node.pem"): "0o640", str(written): "0o644"}
    without_secrets = parse_config({"listeners": "PLAINTEXT://127.0.0.1:9092"})
    assert look_at_files(without_secrets, [written]) == []


def rest(home: Path, name: str = "rest.example", *, days: int = 90, **settings: str) -> BrokerConfig:
    """Return the configuration of a node whose REST API has a certificate of its own."""
    issued = trustme.CA().issue_cert(name, not_after=NOW + timedelta(days=days))
    issued.private_key_and_cert_chain_pem.write_to_path(str(home / "rest.pem"))
    return parse_config(
        {
            "listeners": "PLAINTEXT://127.0.0.1:9092",
            "ottla.rest.listeners": "https://:8082",
            "ottla.rest.ssl.keystore.location": str(home / "rest.pem"),
            **settings,
        }
    )


@pytest.mark.parametrize(
    ("settings", "is_named"),
    [
        ({}, True),  # no setting says the address for clients
        ({"ottla.rest.advertised.listener": "https://rest.example:8082"}, True),
        ({"ottla.rest.advertised.listener": "https://other.example:8082"}, False),
        ({"ottla.rest.advertised.listener": "http://other.example:8083"}, True),
        ({"ottla.rest.listeners": "https://10.0.0.1:8082"}, False),
        ({"ottla.rest.listeners": "https://127.0.0.1:8082"}, True),
        ({"ottla.rest.listeners": "https://rest.example:8082,http://10.0.0.1:8083"}, True),
    ],
)
def test_the_certificate_of_the_rest_api_must_name_its_advertised_host(
    tmp_path: Path, settings: dict[str, str], is_named: bool
) -> None:
    (facts,) = look_at_tls(rest(tmp_path, **settings), NOW)

    assert facts.error == facts.problem == facts.warning == ""
    assert (facts.unnamed == "") is is_named
    if not is_named:
        assert facts.unnamed.startswith(
            "The certificate of the REST API was issued for rest.example, so clients that check names"
        )
        assert any(one in facts.unnamed for one in settings)


def test_the_certificate_of_the_rest_api_may_expire_and_its_key_is_a_secret(tmp_path: Path) -> None:
    made = rest(tmp_path, days=-1)
    (facts,) = look_at_tls(made, NOW)
    (tmp_path / "rest.pem").chmod(0o644)

    assert "certificate of the listener REST API expired on" in facts.problem
    assert [one.path for one in look_at_files(made, [])] == [str(tmp_path / "rest.pem")]
    (tmp_path / "rest.pem").unlink()
    (facts,) = look_at_tls(made, NOW)
    assert "rest.pem" in facts.error


def test_the_certificate_of_a_listener_must_name_its_advertised_host(tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("broker.example")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))

    def unnamed(host: str) -> str:
        made = parse_config(
            {
                "listeners": "PLAINTEXT://127.0.0.1:9092,SSL://:9093",
                "advertised.listeners": f"SSL://{host}:9093",
                "ssl.keystore.location": str(tmp_path / "own.pem"),
                "ottla.rest.listeners": "",
            }
        )
        (facts,) = look_at_tls(made, NOW)
        return facts.unnamed

    assert unnamed("broker.example") == ""
    assert "the listener SSL was issued for broker.example" in unnamed("10.0.0.1")
    assert "issue one for 10.0.0.1, or correct advertised.listeners." in unnamed("10.0.0.1")


def test_an_unreadable_truststore_of_an_oauth_provider_is_reported(tmp_path: Path) -> None:
    place = tmp_path / "provider.pem"
    made = parse_config(
        {
            "listeners": "PLAINTEXT://127.0.0.1:9092,A://:9093,B://:9094",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,A:SASL_PLAINTEXT,B:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "ottla.sasl.plain.without.tls": "true",
            "sasl.oauthbearer.jwks.endpoint.url": "https://localhost/keys",
            "sasl.oauthbearer.expected.audience": "ottla",
            "sasl.oauthbearer.expected.issuer": "https://localhost",
            "ottla.sasl.oauthbearer.truststore.location": str(place),
        }
    )

    (found,) = look_at_trust(made)
    assert found.startswith(f"The authorities in {place} (ottla.sasl.oauthbearer.truststore.location) cannot")
    assert "No such file" in found
    trustme.CA().cert_pem.write_to_path(str(place))
    assert look_at_trust(made) == []
