"""Names in the target, and topics that would be copied in cycles."""

import pytest

from ottla.pipeline.mirror.name_patterns import NameFilter
from ottla.pipeline.mirror.replication_policy import ReplicationPolicy, read_policy
from ottla.pipeline.words import OptionError


def default(separator: str = ".") -> ReplicationPolicy:
    return read_policy("DefaultReplicationPolicy", source_alias="a", target_alias="b", separator=separator)


def identity() -> ReplicationPolicy:
    name = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    return read_policy(name, source_alias="a", target_alias="b", separator=".")


def test_the_default_policy_puts_the_sources_alias_before_a_name() -> None:
    assert default().remote_topic("orders") == "a.orders"
    assert default("_").remote_topic("c_orders") == "a_c_orders"
    assert default().upstream_topic("a.orders") == "orders"
    assert [default().upstream_topic(name) for name in ("orders", "ab.orders", "a.")] == [None] * 3


def test_the_identity_policy_keeps_names() -> None:
    assert identity().remote_topic("orders") == "orders"
    assert identity().upstream_topic("orders") == "orders"
    assert identity().cycle_patterns() == ()


@pytest.mark.parametrize(
    ("topic", "was_in_target"),
    [
        ("b.orders", True),
        ("c.b.orders", True),
        ("b.c.orders", True),
        ("orders", False),
        ("c.orders", False),
        ("orders.b", False),  # a user's name with this ending has been nowhere
        ("b", False),
        ("bb.orders", False),
        ("xb.orders", False),
    ],
)
def test_a_topic_that_has_been_in_the_target_would_be_copied_in_a_cycle(
    topic: str, was_in_target: bool
) -> None:
    names = NameFilter(included=(".*",)).without(default().cycle_patterns())

    assert names.has(topic) is not was_in_target


def test_a_separator_is_no_expression() -> None:
    names = NameFilter(included=(".*",)).without(default(".").cycle_patterns())

    assert names.has("b-orders")


@pytest.mark.parametrize("name", ["x" * 248, "with space"])
def test_a_name_that_kafka_does_not_take_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=r"replication.policy.class: gives topic"):
        default().remote_topic(name)


@pytest.mark.parametrize("separator", ["/", "x" * 248])
def test_a_separator_that_no_topic_name_can_have_is_refused(separator: str) -> None:
    with pytest.raises(OptionError, match=r"replication.policy.class: gives topics the prefix 'a[/x]"):
        default(separator)


def test_other_policies_are_refused() -> None:
    with pytest.raises(OptionError, match="Mine'; it must be DefaultReplicationPolicy or"):
        read_policy("com.example.Mine", source_alias="a", target_alias="b", separator=".")
