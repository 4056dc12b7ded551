"""The host names that a node accepts, and the requests that a browser may send it."""

import pytest
from multidict import CIMultiDict

from ottla.node.rest_api.request_guard import RequestGuard, check_content_type, host_of
from ottla.node.rest_api.rest_error import RestError

GUARD = RequestGuard(["node-1", "Broker.Example.com", "*.svc.cluster.local"])


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8082",
        "127.0.0.1:8082",
        "10.1.2.3",
        "[::1]:8082",
        "[fe80::1]",
        "node-1:1",
        "node-1.:1",
        "broker.example.com",
        "ottla-0.ottla.default.svc.cluster.local:8082",
    ],
)
def test_a_node_is_asked_by_its_names_and_by_addresses(host: str) -> None:
    GUARD.check("POST", CIMultiDict({"Host": host}))


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "node-1.evil",
        "svc.cluster.local",
        "evilsvc.cluster.local",
        "[evil.example]",
        "node-1@evil.example",
        "0x7f.1",
        "localhost:80@evil.example",
        "localhost:8082/evil.example",
        "[::1]evil.example",
        "[::1]:8082:evil.example",
        "localhost:\udcff",
    ],
)
def test_another_name_is_refused(host: str) -> None:
    with pytest.raises(RestError) as refused:
        GUARD.check("GET", CIMultiDict({"Host": host}))

    assert refused.value.status == 421


@pytest.mark.parametrize(
    ("method", "headers", "is_refused"),
    [
        ("POST", {}, False),
        ("POST", {"Origin": "http://localhost:8082"}, False),
        ("POST", {"Origin": "https://localhost:8082"}, False),  # a proxy in front may terminate TLS
        ("POST", {"Origin": "http://localhost:3000"}, True),
        ("POST", {"Origin": "http://evil.example"}, True),
        ("GET", {"Origin": "http://evil.example"}, True),
        ("POST", {"Origin": "null"}, True),
        ("POST", {"Origin": ""}, True),
        ("POST", {"Sec-Fetch-Site": "same-origin"}, False),
        ("POST", {"Sec-Fetch-Site": "none"}, False),
        ("POST", {"Sec-Fetch-Site": "same-site"}, True),
        ("POST", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, True),
        ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, False),
        ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, True),
    ],
)
def test_a_page_of_another_site_may_only_link_here(
    method: str, headers: dict[str, str], is_refused: bool
) -> None:
    try:
        GUARD.check(method, CIMultiDict({"Host": "localhost:8082", **headers}))
    except RestError as refused:
        assert is_refused and refused.status == 403
    else:
        assert not is_refused


@pytest.mark.parametrize(
    ("given", "is_allowed"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("text/plain", False),
        ("text/plain; application/json", False),
        ("", False),
    ],
)
def test_a_body_is_json_by_its_type(given: str, is_allowed: bool) -> None:
    try:
        check_content_type({"Content-Type": given}, ("application/json",))
    except RestError as refused:
        assert not is_allowed and refused.status == 415
    else:
        assert is_allowed


def test_the_host_of_an_authority_has_no_port_and_no_brackets() -> None:
    assert [host_of(one) for one in ("a:1", "[::1]:1", "[::1]", "a", "")] == ["a", "::1", "::1", "a", ""]


@pytest.mark.parametrize("target", ["evil.example", "evil.example:8082", "localhost@evil.example", "\udcff"])
def test_a_host_in_the_first_line_has_to_be_one_of_the_node_too(target: str) -> None:
    headers = CIMultiDict({"Host": "localhost:8082"})
    GUARD.check("GET", headers, "localhost")

    with pytest.raises(RestError) as refused:
        GUARD.check("GET", headers, target)
    assert refused.value.status == 421


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("Origin", "http://localhost:8082", "http://evil.example"),
        ("Sec-Fetch-Site", "same-origin", "cross-site"),
    ],
)
def test_each_value_of_a_repeated_header_is_checked(name: str, good: str, bad: str) -> None:
    for values in ((good, bad), (bad, good)):
        headers = CIMultiDict([("Host", "localhost:8082"), *((name, value) for value in values)])
        with pytest.raises(RestError):
            GUARD.check("POST", headers)
