"""The logins of each listener have the names of Kafka's metrics."""

from ottla.node.metrics.family import Family
from ottla.node.metrics.readings import ListenerReading
from ottla.node.metrics.request_families import connection_families
from ottla.node.net.login import LoginCounts


def reading(name: str, counts: LoginCounts) -> ListenerReading:
    return ListenerReading(name=name, connections=1, accepted=2, logins=counts.by_name(), software={})


def test_each_listener_has_its_own_logins() -> None:
    counts = LoginCounts()
    counts.successful, counts.failed, counts.successful_again, counts.failed_again = 5, 4, 3, 2
    counts.expired = 1

    rest = LoginCounts()
    rest.failed = 7
    found: dict[str, Family] = {
        one.name: one
        for one in connection_families(
            [reading("SASL", counts), reading("PLAINTEXT", LoginCounts())], rest.by_name()
        )
    }

    for name, count in (
        ("successful_authentication", 5),
        ("failed_authentication", 4),
        ("successful_reauthentication", 3),
        ("failed_reauthentication", 2),
        ("expired_connections_killed", 1),
    ):
        lines = "".join(found[f"kafka_server_socket_server_metrics_{name}_total"].lines).splitlines()
        of_rest = "7" if name == "failed_authentication" else "0"
        assert [line.rpartition(" ")[2] for line in lines] == [str(count), "0", of_rest]
        assert 'listener="SASL"' in lines[0] and 'listener="REST API"' in lines[2]


def test_a_rest_api_without_logins_has_no_rows() -> None:
    found = {one.name: one for one in connection_families([reading("SASL", LoginCounts())])}

    lines = found["kafka_server_socket_server_metrics_failed_authentication_total"].lines
    assert "REST" not in "".join(lines)
