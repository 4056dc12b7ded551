"""ottla.node.doctor.security_findings: certificates, files with secrets, open listeners, users and ACLs."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from ottla.node.doctor import security_findings
from ottla.node.doctor.endpoint_facts import EndpointFacts, Speaks
from ottla.node.doctor.finding import Finding, Severity
from ottla.node.doctor.security_findings import (
    AccessFacts,
    FileFacts,
    NodeListeners,
    RefusedFacts,
    TlsFacts,
)
from ottla.node.settings.listener_settings import Listener

CA = trustme.CA()
NOW = datetime.now(UTC)


def only(found: Iterable[Finding], severity: Severity = Severity.PROBLEM) -> str:
    (one,) = found
    assert one.severity is severity
    return one.sentence


def der_certificate(**how: object) -> bytes:
    """Return a certificate for broker-1 as DER."""
    pem = CA.issue_cert("broker-1", **how).cert_chain_pems[0].bytes()  # type: ignore[arg-type]
    return x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)


def at(certificate: bytes, speaks: Speaks = Speaks.KAFKA, host: str = "broker-1") -> EndpointFacts:
    return EndpointFacts(host, 9093, ("10.0.0.1",), speaks, certificate=certificate)


# ---- certificates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "words"),
    [(-1, "broker-1:9093 expired on"), (20, "broker-1:9093 expires on"), (31, "")],
)
def test_a_certificate_that_expires_within_thirty_days_is_reported(days: int, words: str) -> None:
    certificate = der_certificate(not_after=NOW + timedelta(days=days))

    found = list(security_findings.of_certificates([at(certificate)], NOW))

    assert [words in one.sentence for one in found] == [True] * bool(words)


def test_a_certificate_that_is_not_valid_yet_is_reported() -> None:
    certificate = der_certificate(not_before=NOW + timedelta(days=1), not_after=NOW + timedelta(days=90))

    assert "is not valid before" in only(security_findings.of_certificates([at(certificate)], NOW))


def test_a_wrong_name_is_reported_unless_the_doctor_has_checked_it() -> None:
    certificate = der_certificate()

    found = only(security_findings.of_certificates([at(certificate, Speaks.TLS, "broker-2")], NOW))

    assert found.startswith("The certificate of broker-2:9093 was issued for broker-1, so clients that check")
    assert not list(security_findings.of_certificates([at(certificate, Speaks.TLS)], NOW))
    assert not list(security_findings.of_certificates([at(certificate, Speaks.KAFKA, "broker-2")], NOW))


def test_bytes_that_are_no_certificate_are_a_finding_and_raise_nothing() -> None:
    assert "cannot be read" in only(security_findings.of_certificates([at(b"\x30\x03\x02\x01")], NOW))
    assert not list(security_findings.of_certificates([at(b"")], NOW))


def test_the_problems_that_a_node_finds_in_its_own_certificates_are_reported() -> None:
    found = security_findings.of_tls(
        [
            TlsFacts("A", error="no such file"),
            TlsFacts("B", problem="it expired", weakness="its RSA key has 1024 bits"),
            TlsFacts("C", warning="it expires soon"),
            TlsFacts("D", rejection="unable to get local issuer certificate"),
            TlsFacts("E"),
        ]
    )

    texts = [one.sentence for one in found]
    assert texts[:2] == ["no such file", "it expired"]
    assert texts[2] == "The certificate of the listener B is weak: its RSA key has 1024 bits. Issue another."
    assert texts[3] == "it expires soon" and "listener D does not fit its own certificate (unable" in texts[4]
    assert len(texts) == 5


# ---- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "words"),
    [(0o600, ""), (0o640, ""), (0o644, "can read /etc/node.pem, which holds a key"), (0o602, "can change")],
)
def test_a_file_with_a_secret_that_every_user_can_read_is_reported(mode: int, words: str) -> None:
    found = list(security_findings.of_files([FileFacts("/etc/node.pem", "a key", mode)]))

    assert [words in one.sentence for one in found] == [True] * bool(words)


# ---- listeners, users and ACLs -----------------------------------------------------------------------------


def test_listeners_that_others_reach_without_tls_or_an_authorizer_are_noted() -> None:
    outer = Listener(name="OUTER", host="", port=9092)
    encrypted = Listener(name="TLS", host="10.0.0.1", port=9093, security_protocol="SSL")
    own = Listener(name="OWN", host="127.0.0.1", port=9094)

    plain, open_to_all = security_findings.of_listeners([NodeListeners(1, [outer, own], False)])
    found = security_findings.of_listeners([NodeListeners(1, [encrypted, own], True)])

    assert plain.sentence.startswith("Node 1: Other machines reach the listener OUTER (all addresses")
    assert open_to_all.sentence.startswith("Node 1: Other machines reach OUTER, and there is no authorizer")
    assert {plain.severity, open_to_all.severity} == {Severity.NOTE} and not list(found)


def test_a_listener_at_which_every_client_is_a_super_user_is_a_problem() -> None:
    plain = Listener(name="OUTER", host="127.0.0.1", port=9092)

    found = only(security_findings.of_listeners([NodeListeners(1, [plain], True, ["OUTER"])]))

    assert found.startswith("Node 1: super.users names User:ANONYMOUS")
    assert "client that reaches OUTER" in found


def access(*, principals: Iterable[str] = (), everyone: bool = False) -> list[str]:
    facts = AccessFacts({"User:admin"}, everyone, frozenset(principals), {"admin", "anna", "bert"})
    return [one.sentence for one in security_findings.of_access(facts)]


def test_users_without_permissions_are_noted() -> None:
    assert access(principals=["User:anna"]) == [
        "ACLs and super.users do not name User:bert, so it may do nothing: add ACLs, or remove the user."
    ]
    assert access(principals=["User:anna", "User:*"]) == []
    assert access(everyone=True) == []


def test_acls_of_users_that_do_not_exist_are_noted() -> None:
    known = ["User:anna", "User:bert", "User:admin", "User:*", "User:ANONYMOUS", "User:CN=x,O=y"]

    (sentence,) = access(principals=[*known, "User:gone"])

    assert sentence.startswith("ACLs name User:gone, and there is no such SCRAM user")
    assert access(principals=known) == []


def test_without_an_authorizer_there_are_no_findings_about_users() -> None:
    assert list(security_findings.of_access(None)) == []


# ---- rejected certificates, and ACLs without an authorizer -------------------------------------------------


def test_a_rejected_certificate_and_acls_without_an_authorizer_are_problems() -> None:
    refused = [
        ("SSL", "the certificate of CN=a lacks subject alternative names"),
        ("REST API", "no such file"),
    ]
    found = list(
        security_findings.of_refused(
            [RefusedFacts(0, (), 0), RefusedFacts(1, refused, 0), RefusedFacts(2, (), 3)]
        )
    )

    assert {one.severity for one in found} == {Severity.PROBLEM}
    first, second, third = (one.sentence for one in found)
    assert first.startswith("The listener SSL of node 1 keeps its old certificate") and "CN=a" in first
    assert second.endswith("was rejected: no such file")
    assert third.startswith("Node 2: The metadata holds 3 ACLs, which have no effect here")
