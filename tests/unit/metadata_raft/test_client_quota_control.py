"""Client quotas are set and removed as in KIP-546."""

import math

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft import client_quota_control
from ottla.metadata_raft.cluster_features import SECURITY_VERSION
from ottla.metadata_raft.commands import AlterClientQuotas, QuotaChange, QuotaChanges
from ottla.metadata_raft.records import FeatureLevelRecord, QuotaEntityPart
from tests.unit.metadata_raft.metadata_world import MetadataWorld

INVALID = ErrorCode.INVALID_REQUEST
Entity = list[tuple[str, str | None]]
ALICE: Entity = [("user", "alice")]


@pytest.fixture
def world() -> MetadataWorld:
    made = MetadataWorld(brokers=0)
    made.append([FeatureLevelRecord(name=SECURITY_VERSION, feature_level=1)])
    return made


def changes(entity: Entity, *quotas: tuple[str, float | None]) -> QuotaChanges:
    return QuotaChanges(
        entity=[QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in entity],
        changes=[QuotaChange(key=key, value=value or 0.0, remove=value is None) for key, value in quotas],
    )


def alter(
    world: MetadataWorld, *entries: QuotaChanges, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    reply = world.submit(AlterClientQuotas(entries=entries, validate_only=validate_only))
    return [(one.error_code, one.error_message) for one in reply.results]


def test_quotas_are_set_changed_and_removed(world: MetadataWorld) -> None:
    entity: Entity = [("user", None), ("client-id", "c")]
    alter(world, changes(entity, ("producer_byte_rate", 10.0), ("request_percentage", 0.5)))
    before = dict(world.image.client_quotas)

    alter(world, changes(entity[::-1], ("producer_byte_rate", 20.0), ("request_percentage", None)))
    between = dict(world.image.client_quotas)
    alter(world, changes(entity, ("producer_byte_rate", None), ("consumer_byte_rate", None)))

    sorted_entity = (("client-id", "c"), ("user", None))
    assert before == {sorted_entity: {"producer_byte_rate": 10.0, "request_percentage": 0.5}}
    assert between == {sorted_entity: {"producer_byte_rate": 20.0}}
    assert world.image.client_quotas == {}


def test_a_change_without_effect_writes_nothing(world: MetadataWorld) -> None:
    alter(world, changes(ALICE, ("producer_byte_rate", 10.0)))
    written = len(world.log)

    again = alter(world, changes(ALICE, ("producer_byte_rate", 10.0), ("consumer_byte_rate", None)))
    tried = alter(world, changes(ALICE, ("producer_byte_rate", 11.0)), validate_only=True)

    assert again == tried == [(0, None)] and len(world.log) == written


REFUSED: list[tuple[Entity, list[tuple[str, float | None]], str]] = [
    ([], [], "Invalid empty client quota entity"),
    ([("user", "")], [], "Empty user not supported"),
    ([("robot", "r")], [], "Unhandled client quota entity type: robot"),
    ([("user", "a"), ("user", None)], [], "Invalid client quota entity, duplicate entity entry user"),
    ([("ip", None), ("user", "a")], [], "Invalid quota entity combination"),
    ([("ip", "not an address")], [], "not an address is not a valid IP address"),
    (ALICE, [("connection_creation_rate", 1.0)], "Invalid configuration key connection_creation_rate"),
    ([("ip", "::1")], [("producer_byte_rate", 1.0)], "Invalid configuration key producer_byte_rate"),
    (ALICE, [("producer_byte_rate", 0.0)], "Quota producer_byte_rate must be greater than 0"),
    (ALICE, [("request_percentage", -1.0)], "Quota request_percentage must be greater than 0"),
    (ALICE, [("request_percentage", math.nan)], "Quota request_percentage must be greater than 0"),
    (ALICE, [("controller_mutation_rate", math.inf)], "must be a finite number"),
    (ALICE, [("producer_byte_rate", 1.5)], "producer_byte_rate cannot be a fractional value."),
    (ALICE, [("producer_byte_rate", 1e19)], "Proposed value for producer_byte_rate is too large for a LONG."),
    ([("ip", None)], [("connection_creation_rate", 2.0**31)], "is too large for an INT."),
    (ALICE, [("producer_byte_rate", 1.0), ("producer_byte_rate", None)], "Duplicate quota key"),
    (ALICE, [("request_percentage", 1.0), ("nonsense", 1.0)], "Invalid configuration key nonsense"),
]


@pytest.mark.parametrize(("entity", "quotas", "reason"), REFUSED, ids=[case[2] for case in REFUSED])
def test_an_invalid_entity_is_rejected_and_the_others_are_changed(
    world: MetadataWorld, entity: Entity, quotas: list[tuple[str, float | None]], reason: str
) -> None:
    other = changes([("client-id", None)], ("consumer_byte_rate", 1.0))

    first, second = alter(world, changes(entity, *quotas), other)

    assert first[0] == INVALID and reason in str(first[1])
    assert second == (0, None)
    assert world.image.client_quotas == {(("client-id", None),): {"consumer_byte_rate": 1.0}}


def test_an_entity_that_is_named_twice_fails_both_times(world: MetadataWorld) -> None:
    results = alter(world, changes(ALICE, ("producer_byte_rate", 1.0)), changes(ALICE))

    assert results == [(INVALID, "Ignoring duplicate entity ClientQuotaEntity(entries={user=alice})")] * 2
    assert world.image.client_quotas == {}


def test_the_number_of_entities_with_quotas_is_limited(
    world: MetadataWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_quota_control, "MAX_QUOTA_ENTITIES", 1)
    quota = ("producer_byte_rate", 1.0)

    first, second = alter(world, changes(ALICE, quota), changes([("user", "bob")], quota))
    again = alter(world, changes(ALICE, ("producer_byte_rate", 2.0)))

    assert (first[0], second[0], again[0][0]) == (0, ErrorCode.POLICY_VIOLATION, 0)


def test_nothing_is_written_before_all_nodes_can_read_it() -> None:
    with pytest.raises(KafkaError, match=f"only when the feature {SECURITY_VERSION} is 1") as refused:
        alter(MetadataWorld(brokers=0), changes(ALICE, ("producer_byte_rate", 1.0)))
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
