"""Bytes that other programs sent: decoded, and encoded again to the same bytes."""

import tracemalloc
from random import Random

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema_compiler import decoder
from ottla.node.wire import codec
from tests.golden.captured import APIS, exchanges, longest_of_each_version

# librdkafka reserves more room for a count than it then takes, and sends what is left over (trap 1).
TRAILING_BYTES = {
    ("confluent-kafka-py-2.16.1_admin", "METADATA", 13): 3,
    ("confluent-kafka-py-2.16.1_admin", "ALTER_USER_SCRAM_CREDENTIALS", 0): 1,
}
TRUNCATED_MAX_BYTES = 1500  # of frames that are cut at every byte
MUTATIONS_PER_FRAME = 60
# What decoding may take beside the frame: a class is compiled, and an element of one byte is an object.
DECODING_BASE_BYTES = 1 << 20
DECODING_BYTES_PER_BYTE = 1000


def content_bytes(frame: bytes) -> int:
    """The bytes of a request without what follows its body."""
    header, position = codec.decode_request_header(frame)
    _, end = decoder(codec.request_class(header.api_key), header.api_version)(frame, position)
    return end


def decode_whole_request(frame: bytes | memoryview) -> tuple[codec.RequestHeader, object]:
    header, position = codec.decode_request_header(frame)
    return header, codec.decode_request(header.api_key, header.api_version, frame, position)


def test_there_are_all_captured_exchanges() -> None:
    assert sum(len(exchanges(api)) for api in APIS) == 1509


@pytest.mark.parametrize("api", APIS)
def test_a_captured_request_is_encoded_to_the_same_bytes(api: str) -> None:
    odd = 0
    for exchange in exchanges(api):
        header, request = decode_whole_request(exchange.request)

        again = b"".join(
            codec.encode_request(
                header.api_key, header.api_version, header.correlation_id, header.client_id, request
            )
        )

        if again[4:] != exchange.request:
            odd += 1
            tail = exchange.request[len(again) - 4 :]
            assert exchange.request.startswith(again[4:])
            assert len(tail) == TRAILING_BYTES[exchange.client, exchange.api_key.name, exchange.version]
    assert odd == sum(1 for _, name, _ in TRAILING_BYTES if name.lower() == api)


@pytest.mark.parametrize("api", APIS)
def test_a_captured_response_is_encoded_to_the_same_bytes(api: str) -> None:
    for exchange in exchanges(api):
        correlation_id, response = codec.decode_response(
            exchange.api_key, exchange.version, exchange.response
        )

        again = codec.encode_response(exchange.api_key, exchange.version, correlation_id, response)

        assert b"".join(again)[4:] == exchange.response
        assert b"".join(again)[:4] == len(exchange.response).to_bytes(4)


@pytest.mark.parametrize("api", APIS)
def test_a_captured_frame_that_is_cut_short_is_refused_at_every_byte(api: str) -> None:
    for exchange in longest_of_each_version(api, TRUNCATED_MAX_BYTES):
        for end in range(content_bytes(exchange.request)):
            with pytest.raises(KafkaError) as refused:
                decode_whole_request(memoryview(exchange.request)[:end])
            assert refused.value.code in (ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION)
        for end in range(len(exchange.response)):
            with pytest.raises(KafkaError):
                codec.decode_response(exchange.api_key, exchange.version, memoryview(exchange.response)[:end])


@pytest.mark.parametrize("api", APIS)
def test_a_captured_frame_with_a_tail_is_read_as_without(api: str) -> None:
    for exchange in longest_of_each_version(api, TRUNCATED_MAX_BYTES):
        assert decode_whole_request(exchange.request + b"tail") == decode_whole_request(exchange.request)
        key, version, frame = exchange.api_key, exchange.version, exchange.response
        assert codec.decode_response(key, version, frame + b"tail") == codec.decode_response(
            key, version, frame
        )


@pytest.mark.parametrize("api", APIS)
def test_a_mutated_frame_is_a_value_or_a_kafka_error_and_takes_little_memory(api: str) -> None:
    random = Random(api)
    longest = list(longest_of_each_version(api, TRUNCATED_MAX_BYTES))
    for exchange in longest:  # what compiles its codec is no frame's memory
        decode_whole_request(exchange.request)
        codec.decode_response(exchange.api_key, exchange.version, exchange.response)
    tracemalloc.start()
    try:
        for exchange in longest:
            for frame, is_request in ((exchange.request, True), (exchange.response, False)):
                for _ in range(MUTATIONS_PER_FRAME):
                    mutated = mutate(frame, random)
                    tracemalloc.reset_peak()
                    before, _ = tracemalloc.get_traced_memory()
                    try:
                        if is_request:
                            decode_whole_request(mutated)
                        else:
                            codec.decode_response(exchange.api_key, exchange.version, mutated)
                    except KafkaError:
                        pass
                    _, peak = tracemalloc.get_traced_memory()
                    assert peak - before < DECODING_BASE_BYTES + DECODING_BYTES_PER_BYTE * len(mutated)
    finally:
        tracemalloc.stop()


def mutate(frame: bytes, random: Random) -> bytes:
    """The frame with some bytes behind the api key and version changed, lost or added."""
    mutated = bytearray(frame)
    for _ in range(random.randint(1, 4)):
        position = random.randrange(4, len(mutated)) if len(mutated) > 4 else 0
        match random.randrange(4):
            case 0:
                mutated[position : position + 1] = bytes([random.randrange(256)])
            case 1:
                mutated[position : position + 4] = random.choice(
                    (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\x7f")
                )
            case 2:
                del mutated[position : position + random.randint(1, 8)]
            case _:
                mutated[position:position] = random.randbytes(random.randint(1, 8))
    return bytes(mutated)
