"""Access control entries, client quotas, SCRAM credentials: records, image, snapshot, and texts."""

from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.delta import MetadataDelta, replay_batch
from ottla.metadata_raft.image import MetadataImage, ScramCredential, ScramKey, check_invariants
from ottla.metadata_raft.image_changes import changes_between
from ottla.metadata_raft.record_codec import MetadataBatch, decode_record, encode_record
from ottla.metadata_raft.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    MetadataRecord,
    QuotaEntityPart,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from ottla.metadata_raft.snapshot import decode_snapshot, encode_snapshot
from tests.unit.metadata_raft.metadata_world import EMPTY, MetadataWorld

SALT, STORED_KEY, SERVER_KEY = b"salt of alice", b"stored key of alice", b"server key of alice"


def entry(number: int, **changes: Any) -> AccessControlEntryRecord:
    fields = {
        "id": number.to_bytes(16),
        "resource_type": 2,
        "resource_name": f"topic{number}",
        "pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return AccessControlEntryRecord(**{**fields, **changes})


def removed(number: int) -> RemoveAccessControlEntryRecord:
    return RemoveAccessControlEntryRecord(id=number.to_bytes(16))


def quota(key: str, value: float | None, **entity: str | None) -> ClientQuotaRecord:
    parts = [QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    return ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None)


def credential(name: str = "alice", mechanism: int = 1) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=SALT,
        stored_key=STORED_KEY,
        server_key=SERVER_KEY,
        iterations=4096,
    )


RECORDS: list[MetadataRecord] = [
    entry(1),
    entry(2),
    removed(2),
    quota("producer_byte_rate", 1024.0, user="alice", client_id=None),
    quota("request_percentage", 12.5, user="alice", client_id=None),
    quota("consumer_byte_rate", 5.0, ip=None),
    quota("consumer_byte_rate", None, ip=None),
    credential(),
    credential("bob", 2),
    RemoveUserScramCredentialRecord(name="bob", mechanism=2),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_is_decoded_as_it_was_encoded(record: MetadataRecord) -> None:
    assert decode_record(encode_record(record)) == record


def test_the_image_has_what_was_written_and_not_removed() -> None:
    world = MetadataWorld()

    world.append(RECORDS)

    assert [one.resource_name for one in world.image.acls.by_id.values()] == ["topic1"]
    assert world.image.client_quotas == {
        (("client_id", None), ("user", "alice")): {"producer_byte_rate": 1024.0, "request_percentage": 12.5}
    }
    assert world.image.scram_credentials == {
        ScramKey("alice", 1): ScramCredential(SALT, STORED_KEY, SERVER_KEY, 4096)
    }


def test_a_later_batch_removes_what_an_earlier_one_added() -> None:
    world = MetadataWorld()
    world.append(RECORDS)

    world.append([removed(1), entry(3, resource_name="topic1")])
    world.append([quota(key, None, client_id=None, user="alice") for key in ("producer_byte_rate", "no")])
    world.append([RemoveUserScramCredentialRecord(name="alice", mechanism=1)])

    assert list(world.image.acls.by_id) == [(3).to_bytes(16)]
    assert list(world.image.client_quotas.values()) == [{"request_percentage": 12.5}]
    assert world.image.scram_credentials == {}


def test_a_snapshot_gives_the_image_again() -> None:
    world = MetadataWorld()
    world.append([*RECORDS, quota("request_percentage", 1.0, user=None), credential("alice", 2)])
    image = world.image

    content = b"".join(encode_snapshot(image))

    assert decode_snapshot(content, empty=EMPTY, version=image.version, epoch=image.epoch) == image


def test_unchanged_parts_are_shared_and_changes_are_listed() -> None:
    world = MetadataWorld()
    world.append(RECORDS)
    before = world.image

    def after(*records: MetadataRecord) -> tuple[MetadataImage, Any]:
        return replay_batch(before, MetadataBatch(before.version + 1, 1, 0, list(records)))

    image, changes = after(ConfigRecord(resource_type=4, name="a", value="b"))
    assert image.acls is before.acls and image.client_quotas is before.client_quotas
    assert image.scram_credentials is before.scram_credentials
    assert not changes.acls and not changes.client_quotas and not changes.scram_credentials
    for records in ([entry(3)], [removed(1)], [quota("a", 1.0, ip="1.2.3.4")], [credential(mechanism=2)]):
        image, changes = after(*records)
        assert changes_between(before, image) == changes
        assert (image.acls is before.acls) is not changes.acls
        check_invariants(image)


@pytest.mark.parametrize(
    "records",
    [
        [entry(1), entry(1, host="h")],
        [entry(1), entry(2, resource_name="topic1")],
        [removed(1)],
        [entry(1), removed(1), removed(1)],
        [RemoveUserScramCredentialRecord(name="alice", mechanism=1)],
        [credential(), *[RemoveUserScramCredentialRecord(name="alice", mechanism=1)] * 2],
    ],
    ids=["id", "entry", "no entry", "gone entry", "no credential", "gone credential"],
)
def test_records_that_contradict_the_image_are_rejected(records: list[MetadataRecord]) -> None:
    delta = MetadataDelta(EMPTY)

    with pytest.raises(KafkaError) as refused:
        for record in records:
            delta.replay(record)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_an_entity_that_names_a_type_twice_is_replayed_as_it_is() -> None:
    """No controller writes it, and no record may stop a node with an error that is not a KafkaError."""
    twice = [QuotaEntityPart(entity_type="user", entity_name=name) for name in ("a", None)]
    delta = MetadataDelta(EMPTY)

    delta.replay(ClientQuotaRecord(entity=twice, key="k", value=1.0))

    assert delta.apply(version=0, epoch=0, timestamp_ms=0).client_quotas == {
        (("user", "a"), ("user", None)): {"k": 1.0}
    }


def test_no_text_of_a_record_or_an_image_shows_the_keys_of_a_user() -> None:
    world = MetadataWorld()
    world.append([credential()])

    for text in (repr(credential()), repr(world.image), str(world.image.scram_credentials)):
        assert "alice" in text and "4096" in text
        for secret in (SALT, STORED_KEY, SERVER_KEY):
            assert repr(secret)[2:-1] not in text and secret.hex() not in text
