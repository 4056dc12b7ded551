"""The settings of failed logins: defaults, values and errors."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.security.sasl.failed_logins import FailureAllowance
from ottla.node.settings.config import BrokerConfig, parse_config
from ottla.node.start.part_settings import failure_allowance


def config(**settings: str) -> BrokerConfig:
    return parse_config({name.replace("_", "."): value for name, value in settings.items()})


def test_by_default_an_address_may_fail_100_times_at_once_and_10_times_a_second() -> None:
    assert failure_allowance(config()) == FailureAllowance(burst=100, per_second=10, exempt=())


def test_the_settings_of_failed_logins_are_parsed() -> None:
    found = failure_allowance(
        config(
            ottla_failed_logins_burst="7",
            ottla_failed_logins_rate="3",
            ottla_failed_logins_exempt="10.0.0.7, 10.1.2.3/16 ,2001:db8::1",
        )
    )

    assert (found.burst, found.per_second) == (7, 3)
    assert list(map(str, found.exempt)) == ["10.0.0.7/32", "10.1.0.0/16", "2001:db8::/64"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ottla.failed.logins.burst", "0"),
        ("ottla.failed.logins.rate", "0"),
        ("ottla.failed.logins.exempt", "balancer.example"),
        ("ottla.failed.logins.exempt", "10.0.0.0/33"),
        ("ottla.failed.logins.exempt", ",".join(f"10.0.0.{number}" for number in range(101))),
        ("ottla.failed.logins.brust", "500"),
        ("listener.name.plaintext.ottla.failed.logins.burst", "500"),
    ],
)
def test_an_invalid_value_or_name_stops_the_start(name: str, value: str) -> None:
    with pytest.raises(KafkaError, match=name.removeprefix("listener.name.plaintext.")) as refused:
        parse_config({name: value})

    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_the_settings_of_failed_logins_can_be_changed_while_a_node_runs() -> None:
    changed = config().with_dynamic(
        {"ottla.failed.logins.burst": "1000", "ottla.failed.logins.exempt": "10.0.0.7"}, {}
    )

    assert changed.warnings == () and failure_allowance(changed).burst == 1_000
    assert len(failure_allowance(changed).exempt) == 1
    with pytest.raises(KafkaError):
        config().check_dynamic({"ottla.failed.logins.exempt": "nowhere"})
