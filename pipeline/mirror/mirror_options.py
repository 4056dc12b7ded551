"""The options of a mirror, with MirrorMaker's names where it has them, checked before anything starts.

Options of the two clusters' clients have the prefixes `source.cluster.` and `target.cluster.`, as in
MirrorMaker's connectors. Where a default is not MirrorMaker's, the field has the reason.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ottla.pipeline.client.client_settings import ClientSettings, Role
from ottla.pipeline.client.setting_names import PREFIX
from ottla.pipeline.client.topic_admin import CLUSTER_DEFAULT
from ottla.pipeline.mirror.name_patterns import NameFilter, read_patterns
from ottla.pipeline.mirror.replication_policy import DEFAULT_POLICY, INTERNAL, ReplicationPolicy, read_policy
from ottla.pipeline.option_values import OptionValues, shown
from ottla.pipeline.words import OptionError

SOURCE: Final = "source.cluster."
TARGET: Final = "target.cluster."
ALIAS: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_INTERVAL_S: Final = 7 * 24 * 3600
MAX_NUMBER: Final = 2**31 - 1

_PATTERNS: Final[Mapping[str, str]] = {
    "topics": ".*",
    "topics.exclude": r".*[\-\.]internal, .*\.replica, __.*",
    "groups": ".*",
    # MirrorMaker's default does not exclude the progress groups of mirrors, which show how far each has read
    # its source.
    "groups.exclude": r"console-consumer-.*, connect-.*, __.*, mirror\..*",
    "config.properties.exclude": (
        r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
        r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, "
        r"unclean\.leader\.election\.enable, min\.insync\.replicas"
    ),
}
_REFUSED: Final[Mapping[str, str]] = {
    "emit.checkpoints.enabled": "offsets are committed to the groups themselves (sync.group.offsets.enabled)",
    "emit.heartbeats.enabled": ("the progress of the query shows that the mirror is running"),
    "exactly.once.support": "a mirror is always exactly once",
    "offset-syncs.topic.location": ("the offset syncs are stored in the target, with the mirrored records"),
    "sync.topic.acls.enabled": "the administrators of the target decide on access to the copies",
    "use.defaults.from": "each cluster uses its own defaults",
    "topic.filter.class": "Java classes cannot be loaded",
    "group.filter.class": "Java classes cannot be loaded",
    "config.property.filter.class": "Java classes cannot be loaded",
    "forwarding.admin.class": "Java classes cannot be loaded",
}
# Values that are accepted because they describe what is done anyway.
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
    """The options of a mirror; built by `from_options`."""

    policy: ReplicationPolicy
    # With the prefix `kafka.`, for the source and the sink; they may contain secrets.
    source_client: Mapping[str, str] = field(repr=False)
    target_client: Mapping[str, str] = field(repr=False)
    topics: NameFilter
    groups: NameFilter
    excluded_configs: re.Pattern[str]
    transactional_id: str
    takes_over: bool = False  # an id of another query, whose checkpoint is gone
    # The group in the source whose offsets show the progress of the mirror.
    progress_group: str
    # With the identity policy it keeps two mirrors from copying rows in cycles; None: rows stay as they are.
    provenance_header: str | None
    refresh_topics: bool = True
    # MirrorMaker's 600; here every batch refreshes first, and the interval is for topics without records.
    refresh_topics_interval_s: int = 30
    sync_topic_configs: bool = True
    sync_topic_configs_interval_s: int = 600
    # MirrorMaker's is false, which users notice only at a failover.
    sync_group_offsets: bool = True
    sync_group_offsets_interval_s: int = 60
    offset_lag_max: int = 100
    # MirrorMaker's is 2, which is the default of neither cluster.
    replication_factor: int = CLUSTER_DEFAULT
    max_offsets_per_trigger: int | None = None
    starting_offsets: str = "earliest"
    fail_on_data_loss: bool = True

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "MirrorOptions":
        """Read the options; OptionError for the first that is unknown, missing or contradicts another."""
        values = OptionValues(options)
        _check_refused(values)
        source, target = (values.with_prefix(prefix) for prefix in (SOURCE, TARGET))
        source_alias, target_alias = _alias(values, SOURCE), _alias(values, TARGET)
        if source_alias == target_alias:
            raise OptionError(
                TARGET + "alias",
                f"is {target_alias}, which is also the alias of the "
                "source: give the clusters different aliases, so "
                "that cycles can be detected",
            )
        policy = read_policy(
            values.text("replication.policy.class", DEFAULT_POLICY),
            source_alias=source_alias,
            target_alias=target_alias,
            separator=values.text("replication.policy.separator", "."),
        )
        topics = _names(values, "topics", "topics.exclude")
        name = f"mirror.{source_alias}.{target_alias}"
        seconds = partial(values.integer, least=1, most=MAX_INTERVAL_S)
        read = cls(
            policy=policy,
            source_client=_client(source, SOURCE, Role.SOURCE),
            target_client=_client(target, TARGET, Role.SINK),
            topics=topics.without((*INTERNAL, *policy.cycle_patterns())),
            groups=_names(values, "groups", "groups.exclude"),
            excluded_configs=re.compile(
                NameFilter(included=_patterns(values, "config.properties.exclude")).pattern()
            ),
            transactional_id=values.text("transactional.id", name),
            takes_over=values.boolean("transactional.id.takeover", False),
            progress_group=values.text("progress.group.id", name),
            provenance_header=_provenance(values, policy),
            refresh_topics=values.boolean("refresh.topics.enabled", True),
            refresh_topics_interval_s=seconds("refresh.topics.interval.seconds", 30),
            sync_topic_configs=values.boolean("sync.topic.configs.enabled", True),
            sync_topic_configs_interval_s=seconds("sync.topic.configs.interval.seconds", 600),
            sync_group_offsets=values.boolean("sync.group.offsets.enabled", True),
            sync_group_offsets_interval_s=seconds("sync.group.offsets.interval.seconds", 60),
            offset_lag_max=values.integer("offset.lag.max", 100, least=0, most=MAX_NUMBER),
            replication_factor=values.integer(
                "replication.factor", CLUSTER_DEFAULT, least=CLUSTER_DEFAULT, most=2**15 - 1
            ),
            max_offsets_per_trigger=values.optional_integer("maxOffsetsPerTrigger", least=1, most=MAX_NUMBER),
            starting_offsets=values.choice("startingOffsets", ("earliest", "latest"), "earliest"),
            fail_on_data_loss=values.boolean("failOnDataLoss", True),
        )
        if read.replication_factor == 0:
            raise OptionError("replication.factor", "is 0; use -1 for the default of the target cluster")
        values.refuse_others()
        return read


# ---- readers --------------------------------------------------------------------------------------


def _check_refused(values: OptionValues) -> None:
    for option, reason in _REFUSED.items():
        value = values.optional(option)
        if value is not None and value.lower() != _HARMLESS.get(option):
            raise OptionError(option, f"is not supported: {reason}")


def _patterns(values: OptionValues, option: str) -> tuple[str, ...]:
    """Return the patterns of a list; an empty list is allowed and matches nothing."""
    given = values.optional(option)
    text = _PATTERNS[option] if given is None else given
    return read_patterns(option, text, of_topics=option.startswith("topics"))


def _names(values: OptionValues, included: str, excluded: str) -> NameFilter:
    return NameFilter(included=_patterns(values, included), excluded=_patterns(values, excluded))


def _alias(values: OptionValues, prefix: str) -> str:
    alias = values.optional(prefix + "alias") or ""
    if not ALIAS.fullmatch(alias):
        problem = f"is {shown(alias)}" if alias else "is missing"
        raise OptionError(prefix + "alias", f"{problem}: use at most 64 letters, digits, _ and -")
    return alias


def _client(given: Mapping[str, str], prefix: str, role: Role) -> Mapping[str, str]:
    """Return the client's settings prefixed by `kafka.`; errors have the mirror's names."""
    names = {option: option[len(prefix) :].lower() for option in given}
    settings = {PREFIX + name: given[option] for option, name in names.items() if name != "alias"}
    if role is Role.SOURCE:
        level = settings.setdefault(PREFIX + "isolation.level", "read_committed")
        if level.lower() != "read_committed":
            raise OptionError(
                prefix + "isolation.level",
                "is not read_committed, so records of aborted transactions would be mirrored",
            )
    try:
        ClientSettings.from_options(settings, role)
    except OptionError as error:
        raise OptionError(prefix + error.option.removeprefix(PREFIX), error.problem) from None
    return settings


def _provenance(values: OptionValues, policy: ReplicationPolicy) -> str | None:
    """Return the header's name; an empty one disables the header."""
    given = values.optional("provenance.header")
    if given is None:
        return "mirror-provenance" if policy.separator is None else None
    return given or None
