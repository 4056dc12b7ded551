"""The options of a mirror: MirrorMaker's by their own names where it has them, checked before all else.

The clusters' clients have theirs behind `source.cluster.` and `target.cluster.`, as MirrorMaker's connectors
have. Where a default is not MirrorMaker's, the field says why.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pipeline.client.client_settings import ClientSettings, Role
from pipeline.client.setting_names import PREFIX
from pipeline.client.topic_admin import CLUSTER_DEFAULT
from pipeline.mirror.name_patterns import NameFilter, read_patterns
from pipeline.mirror.replication_policy import DEFAULT_POLICY, INTERNAL, ReplicationPolicy, read_policy
from pipeline.words import OptionError

SOURCE: Final = "source.cluster."
TARGET: Final = "target.cluster."
ALIAS: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_INTERVAL_S: Final = 7 * 24 * 3600
MAX_NUMBER: Final = 2**31 - 1

_DEFAULTS: Final[Mapping[str, str]] = {
    "topics": ".*",
    "topics.exclude": r".*[\-\.]internal, .*\.replica, __.*",
    "groups": ".*",
    # Java's have no mirrors' own groups, which show how far each is in its source.
    "groups.exclude": r"console-consumer-.*, connect-.*, __.*, mirror\..*",
    "replication.policy.class": DEFAULT_POLICY,
    "replication.policy.separator": ".",
    "config.properties.exclude": (
        r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
        r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, "
        r"unclean\.leader\.election\.enable, min\.insync\.replicas"
    ),
}
_REFUSED: Final[Mapping[str, str]] = {
    "emit.checkpoints.enabled": "offsets are committed to the groups themselves (sync.group.offsets.enabled)",
    "emit.heartbeats.enabled": "the progress of the query tells whether the mirror lives",
    "exactly.once.support": "a mirror is always exactly once",
    "offset-syncs.topic.location": "the map of offsets lies in the target, beside the rows",
    "sync.topic.acls.enabled": "access lists are not served yet",
    "use.defaults.from": "the defaults of a cluster are its own",
    "topic.filter.class": "classes of Java's are not loaded",
    "group.filter.class": "classes of Java's are not loaded",
    "config.property.filter.class": "classes of Java's are not loaded",
    "forwarding.admin.class": "classes of Java's are not loaded",
}
# What may be said of them, since it is what is done anyway.
_HARMLESS: Final[Mapping[str, str]] = {
    "emit.checkpoints.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "exactly.once.support": "required",
    "offset-syncs.topic.location": "target",
    "sync.topic.acls.enabled": "false",
    "use.defaults.from": "target",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOptions:
    """Everything that a mirror is told; built by `from_options`."""

    policy: ReplicationPolicy
    source_client: Mapping[str, str]  # with the prefix `kafka.`, as the source and the sink take them
    target_client: Mapping[str, str]
    topics: NameFilter
    groups: NameFilter
    excluded_configs: re.Pattern[str]
    transactional_id: str
    # The group in the source that shows how far the mirror is.
    progress_group: str
    # With the identity policy it keeps two mirrors from sending rows in circles; None: rows stay as they are.
    provenance_header: str | None
    refresh_topics: bool = True
    # Java's 600; here every batch looks first, and this is for topics in which nothing is written yet.
    refresh_topics_interval_s: int = 30
    sync_topic_configs: bool = True
    sync_topic_configs_interval_s: int = 600
    # Java's is false, and whoever fails over finds out too late.
    sync_group_offsets: bool = True
    sync_group_offsets_interval_s: int = 60
    offset_lag_max: int = 100
    # Java's is 2, which is neither the source's nor the target's.
    replication_factor: int = CLUSTER_DEFAULT
    max_offsets_per_trigger: int | None = None
    starting_offsets: str = "earliest"
    fail_on_data_loss: bool = True

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "MirrorOptions":
        """Read them; OptionError for the first that is unknown, missing or contradicts another."""
        given = {name: value.strip() for name, value in options.items()}
        _check_names(given)
        texts = {**_DEFAULTS, **given}
        source_alias, target_alias = (_alias(given, prefix + "alias") for prefix in (SOURCE, TARGET))
        if source_alias == target_alias:
            raise OptionError(
                TARGET + "alias", f"is {target_alias}, as the source's: a circle could not be told"
            )
        policy = read_policy(
            texts["replication.policy.class"],
            source_alias=source_alias,
            target_alias=target_alias,
            separator=texts["replication.policy.separator"],
        )
        own = NameFilter(
            included=read_patterns("topics", texts["topics"]),
            excluded=read_patterns("topics.exclude", texts["topics.exclude"]),
        )
        name = f"mirror.{source_alias}.{target_alias}"
        excluded = read_patterns("config.properties.exclude", texts["config.properties.exclude"])
        fields = {
            field: read(option, given[option])
            for option, (field, read) in _READERS.items()
            if option in given
        }
        return cls(
            policy=policy,
            source_client=_client(given, SOURCE, Role.SOURCE),
            target_client=_client(given, TARGET, Role.SINK),
            topics=own.without((*INTERNAL, *policy.circles())),
            groups=NameFilter(
                included=read_patterns("groups", texts["groups"]),
                excluded=read_patterns("groups.exclude", texts["groups.exclude"]),
            ),
            excluded_configs=re.compile(NameFilter(included=excluded).pattern()),
            transactional_id=given.get("transactional.id", name),
            progress_group=given.get("progress.group.id", name),
            provenance_header=_provenance(given, policy),
            **fields,  # type: ignore[arg-type]
        )


# ---- how each is read -----------------------------------------------------------------------------


def _boolean(option: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(option, f"is {text[:40]!r}; true or false")
    return text.lower() == "true"


def _integer(least: int, most: int) -> Callable[[str, str], int]:
    def read(option: str, text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,11}", text) or not least <= int(text) <= most:
            raise OptionError(option, f"is {text[:40]!r}; a whole number from {least} to {most}")
        return int(text)

    return read


def _replication_factor(option: str, text: str) -> int:
    factor = _integer(CLUSTER_DEFAULT, 2**15 - 1)(option, text)
    if factor == 0:
        raise OptionError(option, "is 0; -1 is the target cluster's default")
    return factor


def _starting_offsets(option: str, text: str) -> str:
    if text not in ("earliest", "latest"):
        raise OptionError(option, f"is {text[:40]!r}; earliest or latest")
    return text


_seconds = _integer(1, MAX_INTERVAL_S)
_READERS: Final[Mapping[str, tuple[str, Callable[[str, str], object]]]] = {
    "failOnDataLoss": ("fail_on_data_loss", _boolean),
    "maxOffsetsPerTrigger": ("max_offsets_per_trigger", _integer(1, MAX_NUMBER)),
    "offset.lag.max": ("offset_lag_max", _integer(0, MAX_NUMBER)),
    "refresh.topics.enabled": ("refresh_topics", _boolean),
    "refresh.topics.interval.seconds": ("refresh_topics_interval_s", _seconds),
    "replication.factor": ("replication_factor", _replication_factor),
    "startingOffsets": ("starting_offsets", _starting_offsets),
    "sync.group.offsets.enabled": ("sync_group_offsets", _boolean),
    "sync.group.offsets.interval.seconds": ("sync_group_offsets_interval_s", _seconds),
    "sync.topic.configs.enabled": ("sync_topic_configs", _boolean),
    "sync.topic.configs.interval.seconds": ("sync_topic_configs_interval_s", _seconds),
}
_TEXTS: Final = frozenset({*_DEFAULTS, "transactional.id", "progress.group.id", "provenance.header"})


def _check_names(given: Mapping[str, str]) -> None:
    for option, text in given.items():
        if option in _REFUSED:
            if text.lower() != _HARMLESS.get(option):
                raise OptionError(option, f"is not taken: {_REFUSED[option]}")
        elif option not in _READERS and option not in _TEXTS and not option.startswith((SOURCE, TARGET)):
            raise OptionError(option, "is no option of a mirror")
        if not text and option in ("transactional.id", "progress.group.id", "replication.policy.separator"):
            raise OptionError(option, "is empty")


def _alias(given: Mapping[str, str], option: str) -> str:
    alias = given.get(option, "")
    if not ALIAS.fullmatch(alias):
        problem = f"is {alias[:80]!r}" if alias else "is missing"
        raise OptionError(option, f"{problem}: a name of letters, digits, _ and -, 64 at the most")
    return alias


def _client(given: Mapping[str, str], prefix: str, role: Role) -> Mapping[str, str]:
    """The client's settings with `kafka.` before their names; what is wrong is told by the mirror's names."""
    settings = {
        PREFIX + option.removeprefix(prefix): text
        for option, text in given.items()
        if option.startswith(prefix) and option != prefix + "alias"
    }
    if role is Role.SOURCE:
        level = settings.setdefault(PREFIX + "isolation.level", "read_committed")
        if level.lower() != "read_committed":
            raise OptionError(
                prefix + "isolation.level", "is not read_committed: rows that were aborted would be mirrored"
            )
    try:
        ClientSettings.from_options(settings, role)
    except OptionError as error:
        raise OptionError(prefix + error.option.removeprefix(PREFIX), error.problem) from None
    return settings


def _provenance(given: Mapping[str, str], policy: ReplicationPolicy) -> str | None:
    """The header's name; an empty one is none."""
    default = "" if policy.separator is not None else "mirror-provenance"
    return given.get("provenance.header", default) or None
