"""The limits of each API name every text and bytes field of its requests; longer values are rejected."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from ottla.groupcoord.transactions.transaction_config import MAX_NEW_ID_BYTES
from ottla.logstore.words import schema
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Field, Kind, schema_of
from ottla.logstore.words.schema_compiler import decode, encode
from ottla.logstore.words.schema_decode import FieldTooLong
from ottla.logstore.words.schema_source import STRING_MAX_BYTES
from ottla.node.kafka_api import refusals
from ottla.node.kafka_api.request_decoders import cutting_decoder, limited_decoder
from ottla.node.kafka_api.served_apis import SERVED, SERVED_TO_PEERS, describe
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.peer_api import PeerApi
from ottla.node.wire.request_limits import MAX_ID_BYTES
from tests.property.random_messages import random_message

ALL: list[ApiKey | PeerApi] = [*SERVED, *SERVED_TO_PEERS, PeerApi.PEER_HANDSHAKE]
SERVED_SINCE_3 = {ApiKey.PRODUCE: 3}


def sized_fields(cls: type, version: int | None = None, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the paths of all texts and bytes, but not of records."""
    for field in schema_of(cls).fields:
        if version is not None and not field.is_in(version):
            continue
        if field.kind is Kind.STRUCT and field.of is not None:
            yield from sized_fields(field.of, version, (*path, field.name))
        elif field.kind in (Kind.STRING, Kind.BYTES):
            yield ".".join((*path, field.name))


def versions_of(api: ApiKey | PeerApi) -> range:
    first, last = SERVED[api] if isinstance(api, ApiKey) else SERVED_TO_PEERS.get(api, (0, 0))
    return range(max(first, SERVED_SINCE_3.get(api, 0)), last + 1)  # type: ignore[call-overload]


def made(cls: type, version: int, wrong: str, text: str, path: tuple[str, ...] = ()) -> Any:
    """Return a message with one element in each array, short texts, and `text` in the field `wrong`."""
    fields = {}
    for field in schema_of(cls).fields:
        if field.is_in(version):
            fields[field.name] = value_of(field, version, wrong, text, (*path, field.name))
    return cls(**fields)


def value_of(field: Field, version: int, wrong: str, text: str, path: tuple[str, ...]) -> Any:
    if field.kind is Kind.STRUCT:
        assert field.of is not None
        one: Any = made(field.of, version, wrong, text, path)
    elif field.kind is Kind.STRING:
        one = text if ".".join(path) == wrong else "short"
    elif field.kind is Kind.BYTES:
        one = text.encode() if ".".join(path) == wrong else b"short"
    elif field.is_array:
        one = 7
    else:
        return 1 if field.name == "acks" else field.default
    return [one] if field.is_array else one


def codes_in(answer: Any) -> list[int]:
    if isinstance(answer, list | tuple):
        return [code for one in answer for code in codes_in(one)]
    if not hasattr(type(answer), "__schema__"):
        return []
    return [
        code
        for name, value in vars(answer).items()
        for code in ([value] if name.endswith("error_code") else codes_in(value))
    ]


@pytest.mark.parametrize("api", ALL, ids=lambda api: api.api_name)
def test_every_text_of_every_request_has_a_limit(api: ApiKey | PeerApi) -> None:
    assert set(sized_fields(codec.request_class(api))) == set(describe(api).limits.fields)


@pytest.mark.parametrize("api", ALL, ids=lambda api: api.api_name)
def test_ids_have_a_kilobyte_at_most(api: ApiKey | PeerApi) -> None:
    longer = {path for path, limit in describe(api).limits.fields.items() if limit.max_bytes > MAX_ID_BYTES}

    assert all(path.rpartition(".")[2] in LONG_FIELDS for path in longer), longer


LONG_FIELDS = {
    "metrics",  # of clients
    "dead_letters",  # of nodes, for dead letters that are on their way
    "auth_bytes",  # after the login; before it a frame has at most 64 KiB
    "value",
    "committed_metadata",
    "metadata",
    "assignment",
    "path",
    "command",
    "principal",
    "principal_filter",
    "principal_name",
    "owner_principal_name",
}


@pytest.mark.parametrize("api", ALL, ids=lambda api: api.api_name)
def test_a_value_at_its_limit_is_read_and_a_longer_one_is_rejected_with_its_error(
    api: ApiKey | PeerApi,
) -> None:
    cls = codec.request_class(api)
    for version in versions_of(api):
        for path in sized_fields(cls, version):
            limit = describe(api).limits.fields[path]
            if limit.max_bytes >= STRING_MAX_BYTES:
                continue  # the whole range of the protocol, or megabytes
            for extra in (0, 1):
                text = "x" * (limit.max_bytes + extra)
                frame = encode(made(cls, version, path, text), version)
                if extra:
                    with pytest.raises(FieldTooLong, match=path) as error:
                        limited_decoder(api, version)(frame)
                    assert error.value.code is limit.code
                else:
                    assert limited_decoder(api, version)(frame)[0] == decode(cls, version, frame)


@pytest.mark.parametrize("api", list(SERVED), ids=lambda api: api.api_name)
@pytest.mark.parametrize("size", [MAX_ID_BYTES + 1, 2 * refusals.MAX_REPEATED_BYTES], ids=["small", "large"])
def test_every_api_refuses_by_a_code_in_its_answer(api: ApiKey, size: int) -> None:
    cls, answer_cls = codec.request_class(api), codec.response_class(api)
    for version in versions_of(api):
        for path in sized_fields(cls, version):
            limit = describe(api).limits.fields[path]
            if limit.max_bytes > MAX_ID_BYTES:
                continue
            error = FieldTooLong(limit.code, "too long")
            if refusals.has_error_at_top(api, version):
                answer = refusals.error_at_top(api, version, error)
            else:
                frame = encode(made(cls, version, path, "x" * MAX_ID_BYTES), version)
                frame += bytes(max(0, size - len(frame)))
                answer = refusals.error_by_element(api, version, frame, 0, error)
            codes = codes_in(decode(answer_cls, version, encode(answer, version)))
            assert codes, (version, path)
            assert set(codes) - {ErrorCode.NONE} == {limit.code}, (version, path)


@pytest.mark.parametrize("api", list(SERVED), ids=lambda api: api.api_name)
def test_the_response_to_a_rejected_request_can_be_encoded_whatever_was_left_out(api: ApiKey) -> None:
    chance, error = Random(api), KafkaError(ErrorCode.INVALID_REQUEST, "refused")
    request_class = codec.request_class(api)
    for version in versions_of(api):
        if refusals.has_error_at_top(api, version):
            continue
        for _ in range(20):
            request = random_message(request_class, version, chance)
            if api is ApiKey.PRODUCE:  # without acks no client waits for an answer
                request = schema.replace(request, acks=1)
            frame = encode(request, version)

            answer = refusals.error_by_element(api, version, frame, 0, error)

            assert encode(answer, version)


def test_a_small_refused_request_names_its_elements_whole_and_a_large_one_their_beginnings() -> None:
    request = codec.request_class(ApiKey.FIND_COORDINATOR)(coordinator_keys=["x" * 2_000, "y"])
    frame = encode(request, 4)
    error = FieldTooLong(ErrorCode.INVALID_REQUEST, "too long")

    small = refusals.error_by_element(ApiKey.FIND_COORDINATOR, 4, frame, 0, error)
    large = refusals.error_by_element(
        ApiKey.FIND_COORDINATOR, 4, frame + bytes(refusals.MAX_REPEATED_BYTES), 0, error
    )

    assert [one.key for one in small.coordinators] == ["x" * 2_000, "y"]
    assert [one.key for one in large.coordinators] == ["x" * refusals.BEGINNING_BYTES, "y"]
    assert {one.error_message for one in small.coordinators} == {"too long"}


@pytest.mark.parametrize("api", [one for one in ALL if describe(one).old_ids], ids=lambda api: api.api_name)
def test_old_ids_are_ids_of_what_is_on_disk(api: ApiKey | PeerApi) -> None:
    fields, old_ids = describe(api).limits.fields, describe(api).old_ids

    assert set(old_ids) <= set(fields)
    assert {fields[path].max_bytes for path in old_ids} == {MAX_ID_BYTES}


def test_new_transactional_ids_have_the_limit_of_requests() -> None:
    assert MAX_NEW_ID_BYTES == MAX_ID_BYTES


def test_a_text_that_is_cut_within_a_character_is_still_a_text() -> None:
    frame = encode(codec.request_class(ApiKey.DESCRIBE_GROUPS)(groups=["ä" * 100]), 5)

    request, end = cutting_decoder(ApiKey.DESCRIBE_GROUPS, 5, 3)(frame)

    assert request.groups == ["ä\ufffd"]
    assert end == len(frame)
