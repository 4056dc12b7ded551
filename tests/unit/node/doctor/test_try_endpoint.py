"""ottla.node.doctor.try_endpoint: the first bytes of an answer show the protocol."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.image import Endpoint
from ottla.metadata_raft.raft_guard import Peer
from ottla.metadata_raft.raft_handshake import LinkIdentity, read_hello, refusal
from ottla.node.doctor.endpoint_facts import EndpointFacts, Speaks
from ottla.node.doctor.try_endpoint import QUESTION, with_answer


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def test_a_controller_listener_is_recognised_by_its_rejection() -> None:
    """The listener reads the doctor's request as the greeting of a voter, and rejects it."""
    own = LinkIdentity(b"c" * 16, Peer(1, ZERO_UUID), Endpoint("host1", 9092))
    with pytest.raises(KafkaError) as refused:
        read_hello(QUESTION[4:], own)

    at = with_answer(EndpointFacts("localhost", 9093), framed(refusal(refused.value)))

    assert at.speaks is Speaks.CONTROLLER


@pytest.mark.parametrize(
    "answer",
    [
        framed(b"\x00\x00\x00\x09"),
        framed(refusal(KafkaError(ErrorCode.INVALID_REQUEST, "no")))[:-1],
        b"220 mail.example ESMTP",
    ],
)
def test_other_programs_are_not_taken_for_a_controller_listener(answer: bytes) -> None:
    assert with_answer(EndpointFacts("localhost", 25), answer).speaks is Speaks.OTHER
