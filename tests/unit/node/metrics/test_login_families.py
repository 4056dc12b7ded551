"""Logins by listener, under Kafka's names."""

from ottla.node.metrics.family import Family
from ottla.node.metrics.readings import ListenerReading
from ottla.node.metrics.request_families import connection_families
from ottla.node.net.login import LoginCounts


def reading(name: str, counts: LoginCounts) -> ListenerReading:
    return ListenerReading(name=name, connections=1, accepted=2, logins=counts.by_name(), software={})


def test_each_listener_tells_its_logins() -> None:
    counts = LoginCounts()
    counts.successful, counts.failed, counts.successful_again, counts.failed_again = 5, 4, 3, 2
    counts.expired = 1

    found: dict[str, Family] = {
        one.name: one
        for one in connection_families([reading("SASL", counts), reading("PLAINTEXT", LoginCounts())])
    }

    for name, count in (
        ("successful_authentication", 5),
        ("failed_authentication", 4),
        ("successful_reauthentication", 3),
        ("failed_reauthentication", 2),
        ("expired_connections_killed", 1),
    ):
        lines = "".join(found[f"kafka_server_socket_server_metrics_{name}_total"].lines).splitlines()
        assert [line.rpartition(" ")[2] for line in lines] == [str(count), "0"]
        assert 'listener="SASL"' in lines[0]
