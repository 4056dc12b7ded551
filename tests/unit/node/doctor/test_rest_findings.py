"""ottla.node.doctor.rest_findings: REST APIs that other machines reach, by address and login."""

import pytest

from ottla.node.doctor.ask_cluster import rest_of
from ottla.node.doctor.finding import Severity
from ottla.node.doctor.rest_findings import RestFacts, of_rest
from ottla.node.settings.rest_settings import parse_rest_listeners


def sentences(*addresses: str, methods: tuple[str, ...] = (), has_authorizer: bool = False) -> list[str]:
    facts = RestFacts(3, parse_rest_listeners(addresses), methods, has_authorizer)
    found = list(of_rest([facts]))
    assert {one.severity for one in found} <= {Severity.NOTE}, (
        "a REST API that other machines reach may be intended"
    )
    return [f"{one.subject}: {one.sentence}" for one in found]


def test_plaintext_and_missing_logins_beyond_loopback_are_separate_notes() -> None:
    plain, open_to_all = sentences("http://:8082")

    assert plain.startswith("listener: Node 3: Other machines reach the REST API (all addresses, port 8082)")
    assert open_to_all.startswith("access: Node 3: Other machines reach the REST API (http://:8082), which")
    assert "may read and write all topics" in open_to_all and "set ottla.rest.authentication" in open_to_all


@pytest.mark.parametrize(
    ("addresses", "methods", "subjects"),
    [
        (("http://127.0.0.1:8082", "https://localhost:8083", "http://[::1]:8084"), (), []),
        (("https://:8082",), ("basic",), []),
        (("https://:8082",), ("certificate",), []),
        (("https://:8082",), (), ["access"]),
        (("http://10.0.0.1:8082",), ("basic",), ["listener"]),
        ((), (), []),
    ],
)
def test_only_addresses_that_other_machines_reach_are_checked(
    addresses: tuple[str, ...], methods: tuple[str, ...], subjects: list[str]
) -> None:
    assert [one.partition(":")[0] for one in sentences(*addresses, methods=methods)] == subjects


def test_with_an_authorizer_clients_without_a_login_have_the_rights_of_anonymous() -> None:
    (open_to_all,) = sentences("https://:8082", has_authorizer=True)

    assert "may do what ACLs allow User:ANONYMOUS" in open_to_all


def test_the_facts_are_read_from_the_settings_of_a_node() -> None:
    texts = {
        "ottla.rest.listeners": "https://:8082,http://127.0.0.1:8083",
        "ottla.rest.authentication": "basic, bearer",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }

    found = rest_of(1, texts)

    assert found is not None and found.methods == ["basic", "bearer"] and found.has_authorizer
    assert [one.is_secure for one in found.addresses] == [True, False]
    assert rest_of(1, {}) == RestFacts(1, (), [], False)
    assert rest_of(1, {"ottla.rest.listeners": "nonsense"}) is None
