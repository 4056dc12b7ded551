"""ottla.node.metrics.quota_families: quotas have the names of Kafka's JMX metrics."""

from ottla.node.metrics.quota_families import quota_families
from ottla.node.metrics.readings import QuotasReading
from ottla.node.quota.client_quotas import QuotaReading
from ottla.node.quota.connection_rates import ListenerRates, RateReadings
from tests.unit.node.metrics.test_families import samples


def test_clients_with_a_quota_have_samples_and_their_names_cannot_add_lines() -> None:
    def reading(value: float, mutation_rate: float = 0.0) -> list[QuotaReading]:
        return [QuotaReading("ann", 'x"} 1\ny', value, mutation_rate, 250.0)]

    read = samples(
        quota_families(
            QuotasReading(
                produced=reading(1_000.0),
                fetched=reading(2_000.0),
                requests=reading(12.5),
                mutations=reading(-3.0, 0.5),
                exempt_percentage=0.25,
                connections=RateReadings(3.0, [ListenerRates("INNER", 2.0, 500.0, 100.0)], [("::1", 1.0)]),
            )
        )
    )

    of_client = '{client_id=x"} 1\ny,user=ann}'
    sockets = "kafka_server_socket_server_metrics"
    expected = {
        f"kafka_server_produce_byte_rate{of_client}": 1_000.0,
        f"kafka_server_produce_throttle_time{of_client}": 250.0,
        f"kafka_server_fetch_byte_rate{of_client}": 2_000.0,
        f"kafka_server_request_request_time{of_client}": 12.5,
        "kafka_server_request_exempt_request_time{}": 0.25,
        f"kafka_server_controllermutation_tokens{of_client}": -3.0,
        f"kafka_server_controllermutation_mutation_rate{of_client}": 0.5,
        f"{sockets}_broker_connection_accept_rate{{}}": 3.0,
        f"{sockets}_connection_accept_rate{{listener=INNER}}": 2.0,
        f"{sockets}_connection_accept_rate{{ip=::1}}": 1.0,
        f"{sockets}_connection_accept_throttle_time{{listener=INNER}}": 500.0,
        f"{sockets}_ip_connection_accept_throttle_time{{listener=INNER}}": 100.0,
    }
    assert {name: read.get(name) for name in expected} == expected, read
