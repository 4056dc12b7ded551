"""Whole frames, and the header version of each API."""

import subprocess
import sys

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import schema_of
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.api_versions import ApiVersionsResponse
from ottla.node.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.node.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.node.wire.messages.metadata import MetadataRequest


def test_classes_are_found_by_key_and_know_their_key() -> None:
    for api in ApiKey:
        try:
            request, response = codec.request_class(api), codec.response_class(api)
        except KafkaError:
            continue
        assert request.__name__ == f"{api.api_name}Request"
        assert response.__name__ == f"{api.api_name}Response"
        assert schema_of(request).api_key == schema_of(response).api_key == api
        assert schema_of(request)[3:] == schema_of(response)[3:], "both directions have the same versions"


@pytest.mark.parametrize("key", [-1, 4, 7, 52, 95, 29_999, 30_007])
def test_a_key_without_messages_is_unsupported(key: int) -> None:
    frame = key.to_bytes(2, signed=True) + bytes(8)

    for ask in (codec.request_class, codec.response_class):
        with pytest.raises(KafkaError) as refused:
            ask(key)
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(KafkaError, match=f"no API has the key {key}"):
        codec.decode_request_header(frame)


@pytest.mark.parametrize(
    ("api", "version", "request_version", "response_version"),
    [
        (ApiKey.HEARTBEAT, 3, 1, 0),
        (ApiKey.HEARTBEAT, 4, 2, 1),
        (ApiKey.HEARTBEAT, 99, 2, 1),
        (ApiKey.HEARTBEAT, -1, 1, 0),
        (ApiKey.OFFSET_DELETE, 0, 1, 0),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
        (ApiKey.API_VERSIONS, 0, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.API_VERSIONS, 99, 2, 0),
    ],
)
def test_headers_are_flexible_with_the_version_but_api_versions_answers_never_are(
    api: ApiKey, version: int, request_version: int, response_version: int
) -> None:
    assert codec.request_header_version(api, version) == request_version
    assert codec.response_header_version(api, version) == response_version


@pytest.mark.parametrize("version", range(5))
def test_a_request_and_its_response_come_back(version: int) -> None:
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    frame = b"".join(codec.encode_request(ApiKey.HEARTBEAT, version, 17, "c", request))
    header, position = codec.decode_request_header(frame, 4)

    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert header == (ApiKey.HEARTBEAT, version, 17, "c")
    assert codec.decode_request(12, version, frame, position) == request

    response = HeartbeatResponse(error_code=27)
    answer = b"".join(codec.encode_response(ApiKey.HEARTBEAT, version, 17, response))

    assert int.from_bytes(answer[:4]) == len(answer) - 4
    assert codec.decode_response(12, version, answer, 4) == (17, response)


def test_the_length_counts_records_that_go_uncopied() -> None:
    batches = [b"a" * 1000, memoryview(b"b" * 500)]
    partitions = [PartitionData(partition_index=index, records=batches) for index in range(3)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])

    buffers = codec.encode_response(ApiKey.FETCH, 12, 1, response)

    assert sum(buffer is batch for buffer in buffers for batch in batches) == 6
    frame = b"".join(buffers)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    _, received = codec.decode_response(ApiKey.FETCH, 12, frame, 4)
    assert received.responses[0].partitions[2].records == b"a" * 1000 + b"b" * 500


def test_bytes_behind_a_request_are_ignored() -> None:
    """Trap 1: librdkafka sends some bytes after the body."""
    frame = b"".join(codec.encode_request(ApiKey.METADATA, 12, 1, None, MetadataRequest())) + b"junk"
    header, position = codec.decode_request_header(frame, 4)

    assert codec.decode_request(3, header.api_version, frame, position) == MetadataRequest()


def test_the_answer_to_an_unknown_version_of_api_versions_is_version_zero() -> None:
    """Trap 3: the client can read this, whatever version it requested."""
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)

    (frame,) = codec.encode_response(ApiKey.API_VERSIONS, 0, 5, response)

    assert frame == bytes.fromhex("0000000a 00000005 0023 00000000")


def test_a_version_that_an_api_does_not_have_is_unsupported() -> None:
    with pytest.raises(KafkaError) as refused:
        codec.decode_request(ApiKey.PRODUCE, 2, bytes(100), 0)

    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_importing_the_codec_imports_no_messages() -> None:
    program = "import sys, ottla.node.wire.codec; print(*[m for m in sys.modules if '.messages.' in m])"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""


def test_api_keys_have_kafkas_names() -> None:
    assert ApiKey(2).api_name == "ListOffsets"
    assert ApiKey(23).api_name == "OffsetForLeaderEpoch"
    assert ApiKey.LEADER_AND_ISR.api_name == "LeaderAndIsr"
    assert [api.value for api in ApiKey] == list(range(95))
