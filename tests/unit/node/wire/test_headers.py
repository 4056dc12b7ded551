"""The headers before every body: whole, cut, and with unexpected content."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.wire.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    peek_api,
)

HEADER = RequestHeader(api_key=3, api_version=12, correlation_id=7, client_id="rdkafka")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("client_id", ["rdkafka", "", None, "kühe"])
def test_a_request_header_comes_back(version: int, client_id: str | None) -> None:
    header = HEADER._replace(client_id=client_id)
    encoded = encode_request_header(header, header_version=version)

    assert decode_request_header(encoded + b"body", header_version=version) == (header, len(encoded))


def test_the_client_id_is_never_compact() -> None:
    assert encode_request_header(HEADER, header_version=2) == (
        bytes.fromhex("0003 000c 00000007 0007") + b"rdkafka" + b"\x00"
    )


@pytest.mark.parametrize("version", [1, 2])
def test_a_request_header_that_is_cut_at_any_byte_is_rejected(version: int) -> None:
    encoded = bytes(encode_request_header(HEADER, header_version=version))

    for end in range(len(encoded)):
        with pytest.raises(KafkaError) as refused:
            decode_request_header(encoded[:end], header_version=version)
        assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("section", ["01 05 02 6162", "02 00 00 07 01 61"])
def test_tags_of_a_header_are_skipped(section: str) -> None:
    tags = bytes.fromhex(section)
    encoded = encode_request_header(HEADER, header_version=2)[:-1] + tags

    assert decode_request_header(encoded + b"body", header_version=2) == (HEADER, len(encoded))
    assert decode_response_header(bytes(4) + tags, header_version=1) == (0, 4 + len(tags))


@pytest.mark.parametrize(
    "section", ["01 05 02 61", "ffffffff0f 00", "01 8080808080 01", "80", "e907" + 1001 * "0000"]
)
def test_tags_of_a_header_that_leave_the_frame_or_are_too_many_are_refused(section: str) -> None:
    tags = bytes.fromhex(section)

    with pytest.raises(KafkaError):
        decode_request_header(encode_request_header(HEADER, header_version=2)[:-1] + tags, header_version=2)
    with pytest.raises(KafkaError):
        decode_response_header(bytes(4) + tags, header_version=1)


def test_a_client_id_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(KafkaError, match="not UTF-8"):
        decode_request_header(bytes.fromhex("0003 000c 00000007 0002 fffe 00"), header_version=2)


def test_peeking_needs_four_bytes() -> None:
    assert peek_api(b"..\x00\x03\x00\x0c", 2) == (3, 12)
    with pytest.raises(KafkaError, match="ends too early"):
        peek_api(b"..\x00\x03\x00", 2)
