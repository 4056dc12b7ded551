"""Share groups and dead letters with ACLs: callers see what they may read, and redeliver nothing else."""

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.node.embedded import Cluster
from tests.integration.rest.conftest import Api, eventually
from tests.integration.rest.test_rest_logins import STANDARD, basic

pytestmark = pytest.mark.slow
USERS = {"admin": "a", "ann": "b"}
RECORD: dict[str, Any] = {"partition_id": 0, "value": {"type": "STRING", "data": "x"}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    scram = ",".join(f"SCRAM-SHA-512=[name={name},password={word}]" for name, word in USERS.items())
    overrides = {
        "authorizer.class.name": STANDARD,
        "super.users": "User:admin;User:ANONYMOUS",
        "ottla.add.scram": scram,
        "ottla.rest.authentication": "basic",
    }
    with Cluster(1, rest=True, overrides=overrides) as found:
        yield found


def api_of(cluster: Cluster, user: str) -> Api:
    return Api(cluster.rest_urls[0], cluster.cluster_id, headers=basic(user, USERS[user]))


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Api:
    """Return the API of an administrator, with three share groups that read `orders` or `secrets`."""
    from confluent_kafka import KafkaException, ShareConsumer

    admin = api_of(cluster, "admin")
    for topic in ("orders", "secrets", "letters"):
        admin.post(f"{admin.v3}/topics", {"topic_name": topic}, 201)
    consumers = []
    for group, topic in (("seen", "orders"), ("unseen", "orders"), ("prying", "secrets")):
        consumer = ShareConsumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0})
        consumer.subscribe([topic])
        consumers.append((group, consumer))

    def is_assigned(group: str, consumer: ShareConsumer) -> bool:
        try:
            consumer.poll(0.2)
        except KafkaException:
            return False  # the coordinator is still loading
        members = admin.ask("GET", f"/v1/groups/{group}")
        return members.status == 200 and any(one["partitions"] for one in members.json["members"])

    for group, consumer in consumers:
        eventually(lambda group=group, consumer=consumer: is_assigned(group, consumer), "the group reads")
    return admin


@pytest.fixture(autouse=True)
def no_rights_are_left(admin: Api) -> Iterator[None]:
    """Delete the rights that a test has given to ann, and wait until she has none."""
    yield
    admin.delete(f"{admin.v3}/acls?principal=User:ann", 200)
    acls = f"{admin.v3}/acls?principal=User:ann"
    eventually(lambda: admin.get(acls)["data"] == [], "the node has no ACL of ann")


def allow(admin: Api, kind: str, name: str, operation: str) -> None:
    acl = {
        "resource_type": kind,
        "resource_name": name,
        "pattern_type": "LITERAL",
        "principal": "User:ann",
        "host": "*",
        "operation": operation,
        "permission": "ALLOW",
    }
    admin.post(f"{admin.v3}/acls", acl, 201)


def test_lists_have_only_what_the_caller_may_see(cluster: Cluster, admin: Api) -> None:
    ann = api_of(cluster, "ann")
    assert ann.get(f"{ann.v3}/share-groups")["data"] == []
    assert ann.get("/v1/groups")["groups"] == []
    for path in (f"{ann.v3}/share-groups/seen", "/v1/groups/seen", "/v1/groups/seen/dead-letters"):
        assert ann.ask("GET", path).status == 403

    allow(admin, "GROUP", "seen", "DESCRIBE")
    allow(admin, "GROUP", "prying", "DESCRIBE")
    allow(admin, "TOPIC", "orders", "DESCRIBE")

    def groups() -> list[str]:
        return [one["share_group_id"] for one in ann.get(f"{ann.v3}/share-groups")["data"]]

    # A group that reads a topic hidden from the caller is shown by its name only.
    eventually(lambda: groups() == ["seen"], "the node has the ACLs")
    listed = {one["group_id"]: one["members"] for one in ann.get("/v1/groups")["groups"]}
    assert listed == {"seen": 1, "prying": None}
    assert len(api_of(cluster, "admin").get(f"{admin.v3}/share-groups")["data"]) == 3
    assert ann.ask("GET", "/v1/groups/prying").status == 403
    seen = ann.get("/v1/groups/seen")
    assert [one["topic"] for one in seen["lags"]] == ["orders"]


def test_changes_of_a_share_group_need_the_right(cluster: Cluster, admin: Api) -> None:
    ann = api_of(cluster, "ann")
    allow(admin, "GROUP", "seen", "DESCRIBE")
    allow(admin, "TOPIC", "orders", "DESCRIBE")
    eventually(lambda: ann.ask("GET", "/v1/groups/seen").status == 200, "the node has the ACLs")

    answers = [
        ann.ask("DELETE", "/v1/groups/seen"),
        ann.ask("DELETE", f"{ann.v3}/share-groups/seen"),
        ann.ask("DELETE", "/v1/groups/seen/topics/orders"),
        ann.ask("GET", f"{ann.v3}/groups/seen/configs"),
        ann.ask("PUT", f"{ann.v3}/groups/seen/configs/share.auto.offset.reset", {"value": "earliest"}),
    ]

    assert [one.status for one in answers] == [403] * 5


def test_a_letter_is_delivered_with_the_rights_of_its_caller(cluster: Cluster, admin: Api) -> None:
    ann = api_of(cluster, "ann")
    origin = {"topic": "orders", "partition": "0", "offset": "0", "group": "seen"}
    headers = [
        {"name": f"__dlq.errors.{name}", "value": encoded}
        for name, encoded in zip(origin, ("b3JkZXJz", "MA==", "MA==", "c2Vlbg=="), strict=True)
    ]
    letter = admin.post(f"{admin.v3}/topics/letters/records", {**RECORD, "headers": headers})
    body = {"topic": "orders", "letters": [{"partition": 0, "offset": letter["offset"]}]}
    path = "/v1/groups/seen/dead-letters"

    def statuses() -> tuple[int, int]:
        reading = ann.ask("GET", f"{path}?topic=letters")
        return reading.status, ann.ask("POST", f"{path}/deliver?topic=letters", body).status

    assert statuses() == (403, 403)
    for kind, name, operation in (
        ("GROUP", "seen", "DESCRIBE"),
        ("TOPIC", "orders", "DESCRIBE"),
        ("GROUP", "seen", "DESCRIBE_CONFIGS"),
        ("TOPIC", "letters", "READ"),
    ):
        allow(admin, kind, name, operation)
    eventually(lambda: statuses() == (200, 403), "letters can be read but not delivered")
    before = admin.get(f"{admin.v3}/topics/orders/records")["data"]
    allow(admin, "TOPIC", "orders", "WRITE")
    eventually(lambda: statuses() == (200, 200), "letters can be delivered")

    *others, again = admin.get(f"{admin.v3}/topics/orders/records")["data"]
    assert others == before
    assert (again["value"]["data"], again["headers"]) == ("x", [])
