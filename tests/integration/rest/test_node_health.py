"""The probes and the health overview while nodes die, hang and come back."""

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.node.embedded import Cluster
from ottla.node.rest_api.probe_server import MAX_CONNECTIONS
from tests.compat import command_line
from tests.integration.embedded_broker import EmbeddedBroker
from tests.integration.rest.conftest import Api, Reply, eventually, name_of

pytestmark = pytest.mark.slow
HANGS_S = 30.0  # unless the test ends it sooner
SESSION = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "300"}


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """Three nodes that are killed and restarted; each test leaves all of them running."""
    with Cluster(nodes=3, rest=True, overrides=SESSION) as cluster:
        command_line.ottla(
            cluster.bootstrap, "topic", "create", "held", "-p", "6", "-r", "3", "-c", "min.insync.replicas=2"
        )
        yield cluster


def probe(cluster: Cluster, node_id: int, path: str) -> Reply:
    return api_of(cluster, node_id).ask("GET", path)


def api_of(cluster: Cluster, node_id: int) -> Api:
    """Return the API of a node, which may have restarted on another port."""
    url = cluster.rest_url(node_id)
    assert url is not None, f"node {node_id} has no REST API now"
    return Api(url, cluster.cluster_id)


def health(api: Api) -> Any:
    """Return the overview, or None while it has no answer, for example between two controllers."""
    reply = api.ask("GET", "/v1/health?limit=2")
    return reply.json if reply.status == 200 else None


def is_healthy(api: Api) -> bool:
    found = health(api)
    return found is not None and found["is_healthy"]


def without_a_node(api: Api, node_id: int) -> Any:
    """Return the overview once no replica of a node is in sync and other nodes lead in its place."""
    found = health(api)
    if found is None or found["brokers"][node_id]["state"] != "fenced" or found["leaderless"]["count"]:
        return None
    return found if min(found["under_replicated"]["count"], found["offline"]["count"]) >= 6 else None


def not_ready_because(cluster: Cluster, node_id: int, word: str) -> Reply | None:
    """Return the answer of /readyz once it has this reason; a busy machine may have others for a moment."""
    reply = probe(cluster, node_id, "/readyz")
    return reply if reply.status == 503 and word in reply.json["message"] else None


def is_ready(cluster: Cluster, node_id: int) -> bool:
    return probe(cluster, node_id, "/readyz").status == 200


def problems_of(found: dict[str, Any]) -> list[Any]:
    return [one for one in found["findings"] if one["severity"] == "problem"]


def doctor_with_problems(api: Api, count: int) -> dict[str, Any] | None:
    found = api.get("/v1/doctor")
    return found if len(problems_of(found)) == count else None


def test_a_dead_node_is_reported_by_the_others_and_restarts(three: Cluster) -> None:
    api = api_of(three, 0)
    eventually(lambda: is_healthy(api), "the cluster is healthy")

    three.kill(2)
    down = eventually(lambda: without_a_node(api, 2), "its replicas are reported as missing")
    eventually(lambda: is_ready(three, 0) and is_ready(three, 1), "the other nodes are ready")
    begun = time.monotonic()
    causes = health(api)["causes"]
    took_s = time.monotonic() - begun
    # A new controller has not heard of all voters for a moment.
    found = eventually(lambda: doctor_with_problems(api, 1), "the doctor finds one problem")
    found_again = api.get("/v1/doctor")
    three.restart(2)
    eventually(lambda: is_ready(three, 2), "the node has caught up")
    eventually(lambda: is_healthy(api), "the cluster is healthy again")
    eventually(lambda: (health(api) or {}).get("causes") == [], "no cause is left")

    [cause] = causes
    assert (cause["severity"], cause["subject"]) == ("problem", "broker") and took_s < 1
    assert cause["message"].startswith("Broker 2 is down, starting or hanging (registered, but fenced): ")
    assert "lack a replica in sync" in cause["message"]
    assert not found["is_healthy"] and problems_of(found) == [cause]
    assert found_again == found, "findings are cached for a moment"
    assert not down["is_healthy"]
    assert len(down["under_replicated"]["partitions"]) == 2 < down["under_replicated"]["count"]
    assert down["under_min_isr"]["count"] == down["unclean"]["count"] == 0


def test_partitions_without_a_leader_are_causes(three: Cluster) -> None:
    api = api_of(three, 0)
    eventually(lambda: is_healthy(api), "the cluster is healthy")
    lone, pair = name_of("lone"), name_of("pair")
    for name, brokers, least in ((lone, [2], "1"), (pair, [2, 0], "2")):
        body = {
            "topic_name": name,
            "replicas_assignments": [{"partition_id": 0, "broker_ids": brokers}],
            "configs": [{"name": "min.insync.replicas", "value": least}],
        }
        api.post(f"{api.v3}/topics", body, 201)

    three.kill(2)

    def reported() -> list[dict[str, str]] | None:
        found = health(api)
        has_both = found and found["leaderless"]["count"] and found["under_min_isr"]["count"]
        return found["causes"] if has_both else None

    causes = eventually(reported, "both partitions are reported")
    three.restart(2)
    eventually(lambda: is_healthy(api), "the cluster is healthy again")
    for name in (lone, pair):
        api.delete(f"{api.v3}/topics/{name}")

    [cause] = causes
    assert (cause["severity"], cause["subject"]) == ("problem", "broker")
    assert cause["message"].startswith("Broker 2 is down, starting or hanging (registered, but fenced): ")
    assert f"1 partition has no leader ({lone}-0); " in cause["message"]
    assert f"1 partition rejects producers with acks=all ({pair}-0); " in cause["message"]


def test_without_a_quorum_a_node_is_alive_and_not_ready(three: Cluster) -> None:
    eventually(lambda: is_ready(three, 0), "the node is ready")

    three.kill(1)
    three.kill(2)
    reply = eventually(lambda: not_ready_because(three, 0, "controller"), "the node has no controller")
    eventually(lambda: answers(three, 0), "the node is alive")
    alone = probe(three, 0, "/v1/health")
    restarts = [threading.Thread(target=three.restart, args=(one,)) for one in (1, 2)]
    for one in restarts:
        one.start()
    for one in restarts:
        one.join()
    eventually(lambda: all(is_ready(three, one) for one in (0, 1, 2)), "all nodes are ready again")

    assert reply.json["status"] == "not ready"
    assert alone.status in (200, 500, 503), "the node answers"


def test_a_starting_node_reports_that_it_waits_for_its_quorum(three: Cluster) -> None:
    for one in (0, 1, 2):
        three.kill(one)

    first = threading.Thread(target=three.restart, args=(0,))
    first.start()
    eventually(lambda: answers(three, 0), "its REST API is up before it serves")
    reply = probe(three, 0, "/readyz")
    listed = probe(three, 0, "/v3/clusters")
    others = [threading.Thread(target=three.restart, args=(one,)) for one in (1, 2)]
    for one in others:
        one.start()
    for one in (first, *others):
        one.join()
    eventually(lambda: all(is_ready(three, one) for one in (0, 1, 2)), "all nodes are ready")

    assert reply.status == 503 and reply.json["message"].endswith(".")
    assert listed.status == 503 and listed.json["error_code"] == 50302


def test_a_node_whose_loop_hangs_is_not_alive(embedded: Callable[..., EmbeddedBroker]) -> None:
    node = embedded(ottla_rest_listeners="http://127.0.0.1:0")
    api = Api(f"http://{node.broker.rest.addresses[0].authority}", "any")
    alive = eventually(lambda: api.ask("GET", "/healthz"))
    may_continue = threading.Event()

    node.loop.call_soon_threadsafe(may_continue.wait, HANGS_S)
    dead, not_ready = api.ask("GET", "/healthz"), api.ask("GET", "/readyz")
    may_continue.set()
    again = eventually(lambda: api.ask("GET", "/healthz").status == 200, "the loop continues")

    assert alive.status == 200 and again
    assert dead.status == 503 and "did not answer" in dead.json["message"]
    assert not_ready.status == 503


def test_probes_at_their_own_port_do_not_depend_on_the_rest_api(
    embedded: Callable[..., EmbeddedBroker],
) -> None:
    node = embedded(ottla_rest_listeners="http://127.0.0.1:0", ottla_probe_listener="127.0.0.1:0")
    address = node.broker.probes.address
    assert address is not None
    api = Api(f"http://{address.authority}", "any")
    eventually(lambda: api.ask("GET", "/readyz").status == 200, "the node is ready")
    rest_loop = node.broker.rest._loop
    assert rest_loop is not None
    may_continue = threading.Event()
    slow = [socket.create_connection(address[:2]) for _ in range(3 * MAX_CONNECTIONS)]
    for one in slow[-MAX_CONNECTIONS:]:
        one.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")

    rest_loop.call_soon_threadsafe(may_continue.wait, HANGS_S)
    besides = api.ask("GET", "/healthz"), api.ask("GET", "/readyz", headers={"Host": "any.name:1"})
    node.loop.call_soon_threadsafe(may_continue.wait, HANGS_S)
    dead = eventually(
        lambda: (reply := api.ask("GET", "/healthz")).status == 503 and reply, "the node is reported as dead"
    )
    may_continue.set()
    again = eventually(lambda: api.ask("GET", "/healthz").status == 200, "the loop continues")
    for one in slow:
        one.close()

    assert [one.status for one in besides] == [200, 200] and again
    assert "has not responded" in dead.json["message"]


def test_many_connections_at_the_port_of_the_probes_close_each_other(
    embedded: Callable[..., EmbeddedBroker],
) -> None:
    node = embedded(ottla_rest_listeners="http://127.0.0.1:0", ottla_probe_listener="127.0.0.1:0")
    address = node.broker.probes.address
    assert address is not None

    with socket.create_connection(address[:2]) as kubelet:
        clients = [
            socket.create_connection(address[:2], source_address=("127.0.0.2", 0))
            for _ in range(3 * MAX_CONNECTIONS)
        ]
        kubelet.settimeout(30)
        kubelet.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        content = kubelet.recv(1_000)
        for one in clients:
            one.close()

    assert content.startswith(b"HTTP/1.1 200")


def answers(cluster: Cluster, node_id: int) -> bool:
    if cluster.rest_url(node_id) is None:
        return False
    try:
        return probe(cluster, node_id, "/healthz").status == 200
    except OSError:
        return False


def test_clients_behind_a_trusted_proxy_have_a_share_each(embedded: Callable[..., EmbeddedBroker]) -> None:
    node = embedded(
        ottla_rest_listeners="http://127.0.0.1:0",
        ottla_rest_trusted_proxies="127.0.0.0/8",
        ottla_rest_tails_max_per_address="1",
    )
    [address] = node.broker.rest.addresses
    api = Api(f"http://{address.authority}", uuid_to_text(node.broker.base.state.cluster_id))
    created = api.ask("POST", f"{api.v3}/topics", {"topic_name": "tailed", "partitions_count": 1})
    opened = []

    def tail_for(client: str) -> tuple[int, str | None]:
        connection = http.client.HTTPConnection(address.host, address.port, timeout=HANGS_S)
        opened.append(connection)
        headers = {"Accept": "text/event-stream", "X-Forwarded-For": f"203.0.113.9, {client}"}
        connection.request("GET", f"{api.v3}/topics/tailed/records", headers=headers)
        answer = connection.getresponse()
        if answer.status == 200:
            answer.readline()  # it holds a slot
        return answer.status, answer.headers.get("Retry-After")

    replies = [tail_for(client) for client in ("192.0.2.1", "192.0.2.1", "192.0.2.2")]
    for one in opened:
        one.close()

    assert created.status == 201, created
    assert replies == [(200, None), (429, "2"), (200, None)]
