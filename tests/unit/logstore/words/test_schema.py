"""The notation of messages: the properties of declared classes."""

from collections.abc import Sequence

import pytest

from ottla.logstore.words import schema
from ottla.logstore.words.schema import ZERO_UUID, Kind, message, replace, schema_of, struct


@struct
class Replica:
    broker: int = schema.int32(default=-1)
    directory: bytes = schema.uuid(since=2)


@message(api_key=900, versions=(1, 4), flexible_since=3)
class MoveRequest:
    topic: str = schema.string()
    reason: str | None = schema.string(since=2, nullable_since=3, default=None)
    replicas: Sequence[Replica] = schema.array(Replica)
    epochs: Sequence[int] = schema.array(schema.int32, until=3)
    leader: Replica = schema.struct_(Replica, since=4)
    deadline_ms: int = schema.int64(tag=1, since=3)
    note: str = schema.string(tag=0, since=3)


def test_omitted_fields_read_as_their_defaults() -> None:
    request = MoveRequest()

    assert (request.topic, request.reason, request.replicas, request.deadline_ms) == ("", None, (), 0)
    assert request.leader == Replica(broker=-1, directory=ZERO_UUID)


def test_messages_are_compared_by_value_whether_given_or_default() -> None:
    assert MoveRequest(topic="t", deadline_ms=0) == MoveRequest(topic="t")
    assert MoveRequest(topic="t") != MoveRequest(topic="u")
    assert MoveRequest() != Replica()


def test_a_list_equals_a_tuple_of_the_same_values() -> None:
    assert MoveRequest(epochs=[1, 2]) == MoveRequest(epochs=(1, 2))
    assert MoveRequest(epochs=[1, 2]) != MoveRequest(epochs=(1, 2, 3))
    assert MoveRequest(replicas=[Replica(broker=1)]) == MoveRequest(replicas=(Replica(broker=1),))


def test_an_unknown_field_is_rejected() -> None:
    with pytest.raises(TypeError, match="MoveRequest has no field topics"):
        MoveRequest(topics="t")  # type: ignore[call-arg]


def test_a_message_prints_the_given_fields() -> None:
    assert repr(MoveRequest(topic="t", replicas=[Replica(broker=1)])) == (
        "MoveRequest(topic='t', replicas=[Replica(broker=1)])"
    )


def test_replace_returns_a_changed_copy() -> None:
    request = MoveRequest(topic="t", deadline_ms=5)

    changed = replace(request, topic="u")

    assert (changed.topic, changed.deadline_ms, request.topic) == ("u", 5, "t")


def test_messages_cannot_be_keys() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(MoveRequest())


def test_the_declaration_has_its_versions() -> None:
    declared = schema_of(MoveRequest)

    assert (declared.api_key, declared.min_version, declared.max_version) == (900, 1, 4)
    assert [field.name for field in declared.plain_fields(1)] == ["topic", "replicas", "epochs"]
    assert [field.name for field in declared.plain_fields(4)] == ["topic", "reason", "replicas", "leader"]
    assert [declared.is_flexible(version) for version in (1, 2, 3, 4)] == [False, False, True, True]


def test_tagged_fields_come_in_the_order_of_their_tags() -> None:
    assert [field.name for field in schema_of(MoveRequest).tagged_fields(3)] == ["note", "deadline_ms"]
    assert schema_of(MoveRequest).tagged_fields(2) == []


def test_a_field_knows_the_versions_in_which_it_may_be_null() -> None:
    reason = schema_of(MoveRequest).fields[1]

    assert (reason.kind, reason.is_nullable(2), reason.is_nullable(3)) == (Kind.STRING, False, True)


def test_only_declared_classes_have_a_schema() -> None:
    with pytest.raises(TypeError, match="int is neither a struct nor a message"):
        schema_of(int)
