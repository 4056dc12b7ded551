"""The broker settings of the automatic balance of a cluster."""

from collections.abc import Sequence
from typing import Final

from ottla.logstore.words.config_def import ConfigScope, ConfigValue, Validator, at_least, between
from ottla.node.settings.setting import BOOLEAN, INT, LIST, LONG, LOW, MEDIUM, setting

ENABLE: Final = "ottla.balance.enable"
REQUESTED: Final = "ottla.balance.requested"
MAX_RATE: Final = "ottla.balance.max.bytes.per.second"
EXCLUDED: Final = "ottla.balance.exclude.brokers"
NOT_LEADING: Final = "ottla.balance.exclude.leaders"


def _problem_of_ids(value: ConfigValue) -> str | None:
    words = value if isinstance(value, tuple) else ()
    return None if len(excluded_brokers(words)) == len(words) else "every entry must be the id of a broker."


def excluded_brokers(words: Sequence[str]) -> frozenset[int]:
    """Return the broker ids in a list, without words that are not ids."""
    return frozenset(int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 11)


BALANCE_SETTINGS: Final = (
    setting(
        ENABLE,
        BOOLEAN,
        False,
        "If true, the cluster balances itself: the controller checks if racks, disks, replicas, bytes in and "
        "leaders are distributed evenly, and moves partitions if they are not.",
        scope=ConfigScope.CLUSTER_WIDE,
        importance=MEDIUM,
    ),
    setting(
        REQUESTED,
        BOOLEAN,
        False,
        "If true, the cluster balances itself once: `ottla cluster balance --execute` sets it, and the "
        "controller resets it when nothing is left to move.",
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        "ottla.balance.interval.ms",
        INT,
        60_000,
        "How often the controller checks if the cluster is balanced, in milliseconds.",
        at_least(1_000),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        MAX_RATE,
        LONG,
        50 << 20,
        "The maximum bytes per second that a broker fetches for replicas that are being added to it "
        "while the cluster balances itself.",
        at_least(1),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=MEDIUM,
    ),
    setting(
        "ottla.balance.concurrent.moves",
        INT,
        8,
        "The maximum number of partitions that move at the same time while the cluster balances itself.",
        between(1, 1_000),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        EXCLUDED,
        LIST,
        (),
        "The ids of brokers from which a balance moves everything away, and to which it moves nothing.",
        Validator(allowed="[broker ids]", problem_of=_problem_of_ids),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
    setting(
        NOT_LEADING,
        LIST,
        (),
        "The ids of brokers that a balance does not choose as preferred leaders, unless no other broker can "
        "lead a partition. `ottla broker drain` adds a broker, and `undrain` removes it.",
        Validator(allowed="[broker ids]", problem_of=_problem_of_ids),
        scope=ConfigScope.CLUSTER_WIDE,
        importance=LOW,
    ),
)
