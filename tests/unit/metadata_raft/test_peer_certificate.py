"""Certificates name a node by its id or its hosts."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.peer_certificate import check_certificate_names, is_named, names_in

CERTIFICATE = {
    "subject": ((("organizationName", "Example"),), (("commonName", "node-3"),)),
    "subjectAltName": (("DNS", "three.example.org"), ("IP Address", "10.0.0.3"), ("URI", "spiffe://three")),
}


def test_the_names_are_those_of_hosts_and_the_common_name() -> None:
    assert names_in(CERTIFICATE) == {"node-3", "three.example.org", "10.0.0.3"}
    assert names_in({"subject": ((("commonName", "three.example.org"),),)}) == {"CN=three.example.org"}
    assert names_in(None) == names_in({}) == frozenset()


@pytest.mark.parametrize(
    ("names", "hosts", "expected"),
    [
        (["node-3"], [], True),
        (["NODE-3", "other"], ["three.example.org"], True),
        (["node-33"], [], False),
        (["node-3.example.org"], [], False),
        (["anna"], ["three.example.org"], False),
        (["Three.Example.org"], ["three.example.org"], True),
        (["three.example.org."], ["three.example.org"], True),
        (["*.example.org"], ["three.example.org"], True),
        (["*.example.org"], ["a.three.example.org"], False),
        (["*.example.org"], ["example.org"], False),
        (["*.org"], ["example.org"], False),
        (["*"], ["three"], False),
        (["*.example.org"], [""], False),
        (["10.0.0.3"], ["10.0.0.3"], True),
        (["FD00:0:0:0:0:0:0:1"], ["fd00::1"], True),
        ([""], [""], False),
        ([], ["three.example.org"], False),
    ],
)
def test_a_certificate_names_a_node_by_its_id_or_a_host(
    names: list[str], hosts: list[str], expected: bool
) -> None:
    assert is_named(names, 3, hosts) is expected


def test_the_error_has_the_names_of_the_certificate_and_the_expected_ones() -> None:
    with pytest.raises(KafkaError) as refused:
        check_certificate_names({"anna"}, 3, ["three.example.org"])

    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert refused.value.detail == (
        "The certificate of node 3 was issued for anna. It names neither node-3 nor three.example.org."
    )
    with pytest.raises(KafkaError, match="Node 3 presented no certificate"):
        check_certificate_names([], 3, [])
    check_certificate_names({"node-3"}, 3, [])
