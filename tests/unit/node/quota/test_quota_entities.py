"""ottla.node.quota.quota_entities: the quota that applies to a client, and the clients that share it."""

from random import Random

import pytest

from ottla.metadata_raft.image import QuotaEntity
from ottla.node.quota.quota_entities import ClientQuota, QuotaEntities, QuotaSharers

KEY = "producer_byte_rate"
U, C = "user", "client-id"
# In order of precedence, each with the clients that share it.
LEVELS: list[tuple[QuotaEntity, QuotaSharers]] = [
    (((C, "app"), (U, "ann")), QuotaSharers("ann", "app")),
    (((C, None), (U, "ann")), QuotaSharers("ann", "app")),
    (((U, "ann"),), QuotaSharers("ann", None)),
    (((C, "app"), (U, None)), QuotaSharers("ann", "app")),
    (((C, None), (U, None)), QuotaSharers("ann", "app")),
    (((U, None),), QuotaSharers("ann", None)),
    (((C, "app"),), QuotaSharers(None, "app")),
    (((C, None),), QuotaSharers(None, "app")),
]


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_most_specific_quota_counts_and_has_its_sharers(first: int) -> None:
    quotas = {
        entity: {KEY: float(10 + number)} for number, (entity, _) in enumerate(LEVELS) if number >= first
    }

    found = QuotaEntities(quotas, KEY).of_client("ann", "app")

    assert found == ClientQuota(10.0 + first, LEVELS[first][1])


def test_quotas_of_others_and_of_other_keys_do_not_count() -> None:
    quotas: dict[QuotaEntity, dict[str, float]] = {
        ((U, "bob"),): {KEY: 1},
        ((C, "other"),): {KEY: 1},
        ((U, "ann"),): {"consumer_byte_rate": 1},
        (("ip", None),): {KEY: 1},
    }

    assert QuotaEntities(quotas, KEY).of_client("ann", "app") is None
    assert not QuotaEntities(quotas, "request_percentage")


@pytest.mark.parametrize("client_id", ["", None])
def test_a_client_without_a_client_id_does_not_escape_the_default(client_id: str | None) -> None:
    entities = QuotaEntities({((C, None),): {KEY: 5}}, KEY)

    assert entities.of_client("ann", client_id) == ClientQuota(5, QuotaSharers(None, ""))


def test_the_order_of_an_entitys_parts_does_not_matter() -> None:
    entities = QuotaEntities({((U, "ann"), (C, "app")): {KEY: 5}}, KEY)

    assert entities.of_client("ann", "app") == ClientQuota(5, QuotaSharers("ann", "app"))


def test_an_address_has_its_own_quota_or_the_default_one() -> None:
    key = "connection_creation_rate"
    entities = QuotaEntities({(("ip", "10.0.0.1"),): {key: 3}, (("ip", None),): {key: 9}}, key)

    assert entities.of_address("10.0.0.1") == 3
    assert entities.of_address("10.0.0.2") == 9
    assert QuotaEntities({}, key).of_address("10.0.0.1") is None


def test_changes_of_some_entities_give_the_result_of_setting_all() -> None:
    random = Random(7)
    names = [None, "a", "b"]
    entities = [((kind, name),) for kind in (C, U, "ip") for name in names]
    entities += [((C, one), (U, other)) for one in names for other in names]
    quotas: dict[QuotaEntity, dict[str, float]] = {}
    following = QuotaEntities({}, KEY)

    for _ in range(300):
        changed = random.sample(entities, random.randrange(4))
        for entity in changed:
            quotas.pop(entity, None)
            if random.random() < 0.5:
                quotas[entity] = {random.choice((KEY, "other")): float(random.randrange(1, 9))}
        following.follow(quotas, changed)

        rebuilt = QuotaEntities(quotas, KEY)
        assert bool(following) == bool(rebuilt)
        for user in ("a", "b", "c"):
            assert following.of_address(user) == rebuilt.of_address(user)
            for client_id in (None, "a", "c"):
                assert following.of_client(user, client_id) == rebuilt.of_client(user, client_id)


@pytest.mark.parametrize(
    ("set_for", "address"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::0:1", "2001:db8::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1", "fe80::1%eth0"),
        ("a.name", "a.name"),
    ],
)
def test_an_address_is_found_in_any_notation(set_for: str, address: str) -> None:
    quotas = QuotaEntities({(("ip", set_for),): {KEY: 5.0}}, KEY)

    assert quotas.of_address(address) == 5.0
    quotas.follow({}, [(("ip", set_for),)])
    assert not quotas and quotas.of_address(address) is None
