"""The answers at the port for probes, by the age and the state of the last beat alone."""

import json

import pytest

from ottla.metadata_raft.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from ottla.node.metadata.broker_lifecycle import BrokerState
from ottla.node.node_state import NodeState
from ottla.node.rest_api.node_pulse import MAX_AGE_S, NodePulse
from ottla.node.rest_api.probe_answers import MAX_HEAD_BYTES, answer_of
from ottla.node.rest_api.readiness import NodeStatus
from ottla.node.settings.config import parse_config

NOW_S = 1_000.0


def pulse_of(state: BrokerState | None = BrokerState.RUNNING, *, isr: tuple[int, ...] = (1, 2)) -> NodePulse:
    partition = PartitionImage(2, (1, 2), isr, 0, 1, 1)
    image = MetadataImage(topics=TopicsImage(by_name={"t": TopicImage("t", bytes(16), (partition,))}))
    pulse = NodePulse(NodeState(parse_config({})))
    pulse.beat(NOW_S, NodeStatus(1, state, state is BrokerState.RUNNING, None, image))
    return pulse


def probe(line: str, pulse: NodePulse, now_s: float = NOW_S) -> tuple[int, bytes]:
    """Return the status and the body of the answer to a request with this first line."""
    head, _, body = answer_of(f"{line}\r\nHost: 10.1.2.3:8083".encode(), pulse, now_s).partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_a_node_whose_loop_turns_is_alive_and_ready() -> None:
    pulse = pulse_of()

    alive, body = probe("GET /healthz HTTP/1.1", pulse)
    ready, _ = probe("GET /readyz?verbose HTTP/1.0", pulse)

    assert (alive, ready) == (200, 200) and json.loads(body)["status"] == "alive"


def test_a_loop_that_hangs_is_neither_alive_nor_ready() -> None:
    pulse = pulse_of()

    late = NOW_S + MAX_AGE_S

    assert probe("GET /healthz HTTP/1.1", pulse, late)[0] == 200
    for path in ("/healthz", "/readyz"):
        status, body = probe(f"GET {path} HTTP/1.1", pulse, late + 0.1)
        assert status == 503 and b"has not responded for 2.6 s" in body
    pulse.beat(late + 0.2, pulse_of().last.state)  # type: ignore[union-attr]
    assert probe("GET /healthz HTTP/1.1", pulse, late + 0.2)[0] == 200


def test_a_node_that_starts_is_alive_and_not_ready() -> None:
    pulse = pulse_of(None)

    status, body = probe("GET /readyz HTTP/1.1", pulse)

    assert status == 503 and b"is connecting to the metadata quorum" in body
    assert probe("GET /healthz HTTP/1.1", pulse)[0] == 200


def test_a_loop_that_has_not_turned_is_not_alive() -> None:
    assert probe("GET /healthz HTTP/1.1", NodePulse(NodeState(parse_config({}))))[0] == 503


def test_a_replica_that_lags_later_does_not_take_readiness_away() -> None:
    pulse = pulse_of(isr=(2,))
    before = probe("GET /readyz HTTP/1.1", pulse)[0]
    pulse.beat(NOW_S, pulse_of().last.state)  # type: ignore[union-attr]
    in_sync = probe("GET /readyz HTTP/1.1", pulse)[0]

    pulse.beat(NOW_S, pulse_of(isr=(2,)).last.state)  # type: ignore[union-attr]

    assert (before, in_sync, probe("GET /readyz HTTP/1.1", pulse)[0]) == (503, 200, 200)


def test_a_node_that_is_cut_off_says_since_when() -> None:
    pulse = pulse_of()
    pulse.beat(NOW_S, pulse.last.state._replace(cut_off_since_ms=0))  # type: ignore[union-attr]

    response = answer_of(b"GET /healthz HTTP/1.1", pulse, NOW_S)

    assert b"Ottla-Cut-Off-Since: 1970-01-01T" in response and response.startswith(b"HTTP/1.1 200 ")


def test_head_has_the_headers_of_get_and_no_body() -> None:
    pulse = pulse_of()

    get = answer_of(b"GET /healthz HTTP/1.1", pulse, NOW_S)
    head = answer_of(b"HEAD /healthz HTTP/1.1", pulse, NOW_S)

    assert get.startswith(head) and head.endswith(b"\r\n\r\n") and len(get) > len(head)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("POST /healthz HTTP/1.1", 405),
        ("GET /v3/clusters HTTP/1.1", 404),
        ("GET /healthz/ HTTP/1.1", 404),
        ("GET /healthz", 400),
        ("PRI * HTTP/2.0", 400),
        ("\x16\x03\x01", 400),
        ("GET http://ottla/healthz HTTP/1.1", 200),
        ("GET /healthz HTTP/1.1 " + "x" * MAX_HEAD_BYTES, 431),
    ],
)
def test_nothing_else_is_served(line: str, status: int) -> None:
    assert probe(line, pulse_of())[0] == status
