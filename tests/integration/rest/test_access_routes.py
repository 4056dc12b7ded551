"""ACLs, users and quotas over REST: all operations, the caller's rights, and the view of Kafka clients."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.integration.rest.conftest import Api, eventually
from tests.integration.rest.test_rest_logins import TIMEOUT_S, RestNode

pytestmark = pytest.mark.slow
PASSWORD = "a new-Password"


@pytest.fixture(scope="module")
def rest_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestNode]:
    found = RestNode(tmp_path_factory.mktemp("access-routes"))
    yield found
    found.node.stop()


@pytest.fixture
def admin(rest_node: RestNode) -> Api:
    return rest_node.api("admin")


def acl(**fields: str) -> dict[str, str]:
    return {
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "pattern_type": "LITERAL",
        "principal": "User:dora",
        "host": "*",
        "operation": "READ",
        "permission": "ALLOW",
        **fields,
    }


def plain(found: dict[str, Any]) -> dict[str, str]:
    return {name: found[name] for name in acl()}


# ---- ACLs --------------------------------------------------------------------------------------------------


def test_an_acl_is_created_found_by_its_link_and_deleted(rest_node: RestNode, admin: Api) -> None:
    created = admin.ask("POST", f"{rest_node.v3}/acls", acl(resource_name="a/b c&d"))
    found = admin.ask("GET", created.headers["Location"]).json
    seen = rest_node.admin.describe_acls(
        AclBindingFilter(
            ResourceType.TOPIC,
            "a/b c&d",
            ResourcePatternType.LITERAL,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
    ).result(TIMEOUT_S)
    deleted = admin.ask("DELETE", found["data"][0]["metadata"]["self"])

    assert created.status == 201 and created.content == b""
    assert found["kind"] == "KafkaAclList" and found["data"][0]["kind"] == "KafkaAcl"
    assert [plain(one) for one in found["data"]] == [acl(resource_name="a/b c&d")]
    assert [one.principal for one in seen] == ["User:dora"]
    assert deleted.status == 200 and [plain(one) for one in deleted.json["data"]] == [plain(found["data"][0])]
    assert admin.ask("GET", created.headers["Location"]).json["data"] == []


def test_a_batch_is_created_and_filters_select_from_it(rest_node: RestNode, admin: Api) -> None:
    batch = [acl(operation=one, principal="User:emil") for one in ("READ", "WRITE")]
    batch.append(acl(resource_type="GROUP", pattern_type="PREFIXED", principal="User:emil"))
    batch.append(acl(principal="User:emil", permission="DENY", host="10.0.0.1"))

    status = admin.ask("POST", f"{rest_node.v3}/acls:batch", {"data": batch}).status

    def count(query: str) -> int:
        return len(admin.get(f"{rest_node.v3}/acls?principal=User:emil&{query}")["data"])

    assert status == 201
    assert [count(one) for one in ("", "operation=write", "resource_type=Group")] == [4, 1, 1]
    assert [count(one) for one in ("permission=DENY", "host=10.0.0.1", "resource_name=orders")] == [1, 1, 4]
    assert [count(one) for one in ("pattern_type=PREFIXED", "pattern_type=MATCH&resource_name=orders-1")] == [
        1,
        1,
    ]
    gone = admin.delete(f"{rest_node.v3}/acls?principal=User:emil", 200)
    assert len(gone["data"]) == 4 and count("") == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": "ANY"},
        {"pattern_type": "MATCH"},
        {"operation": "UNKNOWN"},
        {"permission": "ANY"},
        {"principal": ""},
        {"principal": "dora"},
        {"resource_type": "CLUSTER"},
        {"operation": "fly"},
    ],
)
def test_an_invalid_entry_is_rejected(rest_node: RestNode, admin: Api, wrong: dict[str, str]) -> None:
    reply = admin.ask("POST", f"{rest_node.v3}/acls", acl(**wrong))

    assert reply.status == 400, reply.content
    assert admin.ask("GET", f"{rest_node.v3}/acls?principal=User:dora").json["data"] == []


def test_unknown_values_of_filters_are_rejected(rest_node: RestNode, admin: Api) -> None:
    assert admin.ask("GET", f"{rest_node.v3}/acls?operation=fly").status == 404
    assert admin.ask("DELETE", f"{rest_node.v3}/acls?permission=UNKNOWN").status == 400


def test_acls_need_the_rights_to_describe_and_alter_the_cluster(rest_node: RestNode, admin: Api) -> None:
    ann = rest_node.api("ann")

    assert ann.ask("GET", f"{rest_node.v3}/acls").status == 403
    assert ann.ask("POST", f"{rest_node.v3}/acls", acl()).status == 403
    assert ann.ask("POST", f"{rest_node.v3}/acls:batch", {"data": [acl()]}).status == 403
    assert ann.ask("DELETE", f"{rest_node.v3}/acls").status == 403
    assert admin.get(f"{rest_node.v3}/acls?principal=User:dora")["data"] == []


# ---- users -------------------------------------------------------------------------------------------------


def test_a_user_is_created_logs_in_changes_and_is_deleted(rest_node: RestNode, admin: Api) -> None:
    made = admin.ask("PUT", "/v1/users/fay", {"password": PASSWORD})
    shown = admin.get("/v1/users/fay")
    logged_in = eventually(lambda: rest_node.api("fay", PASSWORD).ask("GET", "/v3/clusters").status == 200)
    admin.put("/v1/users/fay", {"password": "other", "mechanism": "SCRAM-SHA-256", "iterations": 8192}, 204)
    both = admin.get("/v1/users/fay")["mechanisms"]
    admin.delete("/v1/users/fay?mechanism=SCRAM-SHA-512")
    left = admin.get("/v1/users/fay")["mechanisms"]
    admin.delete("/v1/users/fay")

    assert made.status == 204 and logged_in
    assert shown == {"name": "fay", "mechanisms": [{"mechanism": "SCRAM-SHA-512", "iterations": 4096}]}
    assert {one["mechanism"]: one["iterations"] for one in both} == {
        "SCRAM-SHA-256": 8192,
        "SCRAM-SHA-512": 4096,
    }
    assert [one["mechanism"] for one in left] == ["SCRAM-SHA-256"]
    assert admin.ask("GET", "/v1/users/fay").status == 404
    assert admin.ask("DELETE", "/v1/users/fay").status == 404
    eventually(lambda: rest_node.api("fay", "other").ask("GET", "/v3/clusters").status == 401)


def test_names_of_users_may_be_any_text(admin: Api) -> None:
    admin.put("/v1/users/J%C3%BCrgen%20%2F%20%3F", {"password": "x"}, 204)

    assert "Jürgen / ?" in [one["name"] for one in admin.get("/v1/users")["users"]]
    admin.delete("/v1/users/J%C3%BCrgen%20%2F%20%3F")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"password": ""},
        {"password": 5},
        {"password": "x" * 2_000},
        {"password": PASSWORD, "mechanism": "PLAIN"},
        {"password": PASSWORD, "iterations": 1},
        {"password": PASSWORD, "iterations": 10**9},
        {"password": PASSWORD, "more": 1},
    ],
)
def test_invalid_passwords_are_rejected_and_not_returned(admin: Api, body: dict[str, Any]) -> None:
    reply = admin.ask("PUT", "/v1/users/gus", body)

    assert reply.status in (400, 422) and PASSWORD.encode() not in reply.content
    assert admin.ask("GET", "/v1/users/gus").status == 404


def test_users_need_the_rights_to_describe_and_alter_the_cluster(rest_node: RestNode, admin: Api) -> None:
    ann = rest_node.api("ann")

    assert ann.ask("GET", "/v1/users").status == 403
    assert ann.ask("PUT", "/v1/users/admin", {"password": "mine"}).status == 403
    assert ann.ask("DELETE", "/v1/users/admin").status == 403
    assert admin.ask("GET", "/v1/users/admin").status == 200


# ---- quotas ------------------------------------------------------------------------------------------------


def test_quotas_are_set_found_and_removed(admin: Api) -> None:
    entity = {"user": "ann", "client_id": None}
    admin.put("/v1/quotas", {"entity": entity, "quotas": {"producer_byte_rate": 1_000_000}}, 204)
    admin.put("/v1/quotas", {"entity": entity, "quotas": {"consumer_byte_rate": 2_000_000}}, 204)
    admin.put("/v1/quotas", {"entity": {"ip": "10.0.0.1"}, "quotas": {"connection_creation_rate": 5}}, 204)
    both = admin.get("/v1/quotas?user=ann")["quotas"]
    admin.put("/v1/quotas", {"entity": entity, "quotas": {"consumer_byte_rate": None}}, 204)
    one = admin.get("/v1/quotas?user=ann&client_id=")["quotas"]

    assert both == [
        {"entity": entity, "quotas": {"producer_byte_rate": 1_000_000, "consumer_byte_rate": 2_000_000}}
    ]
    assert one == [{"entity": entity, "quotas": {"producer_byte_rate": 1_000_000}}]
    assert len(admin.get("/v1/quotas")["quotas"]) == 2
    admin.delete("/v1/quotas?user=ann&client_id=")
    admin.delete("/v1/quotas?ip=10.0.0.1")
    assert admin.get("/v1/quotas")["quotas"] == []
    assert admin.ask("DELETE", "/v1/quotas?user=ann").status == 404


def test_a_dry_run_changes_nothing(admin: Api) -> None:
    change = {"entity": {"user": "hal"}, "quotas": {"producer_byte_rate": 5}, "dry_run": True}

    assert admin.ask("PUT", "/v1/quotas", change).status == 204
    assert admin.get("/v1/quotas?user=hal")["quotas"] == []


@pytest.mark.parametrize(
    "body",
    [
        {"entity": {}, "quotas": {"producer_byte_rate": 1}},
        {"entity": {"user": ""}, "quotas": {"producer_byte_rate": 1}},
        {"entity": {"user": "ann"}, "quotas": {}},
        {"entity": {"user": "ann"}, "quotas": {"speed": 1}},
        {"entity": {"user": "ann"}, "quotas": {"producer_byte_rate": "much"}},
        {"entity": {"user": "ann"}, "quotas": {"producer_byte_rate": -1}},
        {"entity": {"user": "ann", "ip": "10.0.0.1"}, "quotas": {"producer_byte_rate": 1}},
        {"entity": {"ip": "nowhere.invalid"}, "quotas": {"connection_creation_rate": 1}},
        {"entity": {"group": "ann"}, "quotas": {"producer_byte_rate": 1}},
        {"entity": {"user": "ann"}, "quotas": {f"q{number}": 1 for number in range(50)}},
    ],
)
def test_invalid_quotas_are_rejected(admin: Api, body: dict[str, Any]) -> None:
    assert admin.ask("PUT", "/v1/quotas", body).status == 400
    assert admin.get("/v1/quotas")["quotas"] == []


def test_quotas_need_the_rights_to_describe_and_alter_the_cluster(rest_node: RestNode) -> None:
    ann, change = rest_node.api("ann"), {"entity": {"user": "ann"}, "quotas": {"producer_byte_rate": 1e12}}

    assert ann.ask("GET", "/v1/quotas").status == 403
    assert ann.ask("PUT", "/v1/quotas", change).status == 403
    assert ann.ask("DELETE", "/v1/quotas?user=ann").status == 403


def test_kafka_clients_see_what_the_api_created(rest_node: RestNode, admin: Api) -> None:
    admin.put("/v1/users/ida", {"password": PASSWORD}, 204)

    client = AdminClient({"bootstrap.servers": rest_node.node.bootstrap})
    found = client.describe_user_scram_credentials(["ida"])["ida"].result(TIMEOUT_S)

    assert [one.iterations for one in found.scram_credential_infos] == [4096]
    admin.delete("/v1/users/ida")
