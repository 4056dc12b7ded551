"""Names in the target, and topics that would be copied in circles."""

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
    assert default().source_topic("a.orders") == "orders"
    assert [default().source_topic(name) for name in ("orders", "ab.orders", "a.")] == [None] * 3


def test_the_identity_policy_keeps_names() -> None:
    assert identity().remote_topic("orders") == "orders"
    assert identity().source_topic("orders") == "orders"
    assert identity().circles() == ()


@pytest.mark.parametrize(
    ("topic", "goes_round"),
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
def test_a_topic_that_has_been_in_the_target_would_be_copied_in_a_circle(
    topic: str, goes_round: bool
) -> None:
    names = NameFilter(included=(".*",)).without(default().circles())

    assert names.has(topic) is not goes_round


def test_a_separator_is_no_expression() -> None:
    names = NameFilter(included=(".*",)).without(default(".").circles())

    assert names.has("b-orders")


@pytest.mark.parametrize("name", ["x" * 248, "with space"])
def test_a_name_that_kafka_does_not_take_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=r"replication.policy.class: gives topic"):
        default().remote_topic(name)


def test_other_policies_are_refused() -> None:
    with pytest.raises(OptionError, match="Mine'; it must be DefaultReplicationPolicy or"):
        read_policy("com.example.Mine", source_alias="a", target_alias="b", separator=".")
