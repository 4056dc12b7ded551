"""All brokers are asked at once; those that do not answer are named, and soon."""

import asyncio
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.client import ask_brokers as asking
from ottla.node.client.ask_brokers import BrokerAnswers, ask_brokers
from ottla.node.client.cluster_client import Client, Topic
from ottla.node.client.deadline import Deadline
from ottla.node.wire.messages.metadata import MetadataResponse, MetadataResponseBroker

GONE = KafkaError(ErrorCode.NETWORK_EXCEPTION, "no connection to b:9092: connection refused")


class Cluster:
    """Brokers that are up, those that refuse connections, and the brokers asked so far."""

    def __init__(self, *up: int, dead: tuple[int, ...] = ()) -> None:
        self.up, self.dead = list(up), list(dead)
        self.requested: list[int] = []
        self.refreshed = 0
        self.now_s = 0.0

    def client(self, *, cut_off: bool = False) -> Client:
        client = Client([("a", 9092)], timeout_s=30)
        client.deadline = Deadline.after(30, lambda: self.now_s)
        client.note_cut_off(7 if cut_off else None)
        return client

    async def refresh(self, _: Client, names: Any, **__: Any) -> Any:
        self.refreshed += 1
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=one, host="h", port=1) for one in (*self.up, *self.dead)]
        )

    async def ask(self, client: Client, broker_id: int) -> str:
        self.requested.append(broker_id)
        if broker_id in self.dead:
            raise GONE
        return f"of {broker_id}"


def ask(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, cut_off: bool = False) -> BrokerAnswers[str]:
    async def sleep(seconds: float) -> None:
        cluster.now_s += seconds

    monkeypatch.setattr(Client, "refresh", lambda *given, **more: cluster.refresh(*given, **more))
    monkeypatch.setattr(asking.asyncio, "sleep", sleep)
    return asyncio.run(ask_brokers(cluster.client(cut_off=cut_off), cluster.ask))


def test_brokers_that_do_not_answer_are_named_beside_the_answers_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(0, dead=(1, 2))

    result = ask(cluster, monkeypatch)

    assert result.found == {0: "of 0"} and result.problems == {1: GONE, 2: GONE}
    assert cluster.requested.count(0) == 1 and cluster.requested.count(1) > 3
    assert 10 < cluster.now_s <= 15, "it is asked again for half of the time"


def test_no_broker_is_waited_for_while_the_quorum_has_no_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(0, dead=(1, 2))

    result = ask(cluster, monkeypatch, cut_off=True)

    assert set(result.problems) == {1, 2} and cluster.now_s <= 1


def test_a_broker_that_is_fenced_meanwhile_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(0, dead=(1,))

    async def ask_and_fence(client: Client, broker_id: int) -> str:
        try:
            return await Cluster.ask(cluster, client, broker_id)
        finally:
            if cluster.requested.count(1) == 2:
                cluster.dead.clear()

    monkeypatch.setattr(cluster, "ask", ask_and_fence)
    result = ask(cluster, monkeypatch)

    assert result == BrokerAnswers({0: "of 0"}, {}) and cluster.now_s < 1


def test_a_final_error_and_no_answer_at_all_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = KafkaError(ErrorCode.UNSUPPORTED_VERSION, "broker 1 does not support this filter")

    async def refuse(client: Client, broker_id: int) -> str:
        raise refused if broker_id else GONE

    cluster = Cluster(0, 1)
    monkeypatch.setattr(cluster, "ask", refuse)
    with pytest.raises(KafkaError) as ended:
        ask(cluster, monkeypatch)
    assert ended.value is refused and cluster.now_s == 0

    with pytest.raises(KafkaError) as silent:
        ask(Cluster(dead=(0, 1)), monkeypatch)
    assert silent.value is GONE


def retried(client: Client, error: KafkaError, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the number of attempts for an attempt that always fails."""
    now_s, attempts = 0.0, 0

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        raise error

    client.deadline = Deadline.after(30, lambda: now_s)
    client.topics["t"] = Topic("t", bytes(16), {0: 1})
    client.learn(MetadataResponse())
    monkeypatch.setattr("ottla.node.client.cluster_client.asyncio.sleep", sleep)
    with pytest.raises(KafkaError):
        asyncio.run(client.retry(attempt))
    return attempts


def test_errors_that_only_a_leader_of_the_quorum_could_resolve_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client([("a", 9092)], timeout_s=30)
    leaderless = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "t-0 has no leader at the moment")
    connected = retried(client, leaderless, monkeypatch)
    client.note_cut_off(7)
    cut_off = retried(client, leaderless, monkeypatch)

    assert cut_off < 6 < connected
    # A change waits for the whole timeout: a leader may be elected at any moment.
    no_controller = KafkaError(ErrorCode.NOT_CONTROLLER, "The metadata quorum has no leader at the moment")
    assert retried(client, no_controller, monkeypatch) == connected
