"""The options of a mirror: those read, and the errors of invalid ones."""

import pytest

from ottla.pipeline.mirror.mirror_options import MirrorOptions
from ottla.pipeline.mirror.mirrored_rows import sink_options
from ottla.pipeline.sink.sink_options import SinkOptions
from ottla.pipeline.words import OptionError

NEEDED = {
    "source.cluster.alias": "a",
    "source.cluster.bootstrap.servers": "x:1",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "y:2",
}
IDENTITY = {"replication.policy.class": "IdentityReplicationPolicy"}


def options_of(**given: str) -> MirrorOptions:
    """Read options of a mirror; underscores stand for dots."""
    return MirrorOptions.from_options(NEEDED | {name.replace("_", "."): text for name, text in given.items()})


def test_the_required_options_are_enough() -> None:
    options = options_of()

    assert options.source_client == {
        "kafka.bootstrap.servers": "x:1",
        "kafka.isolation.level": "read_committed",
    }
    assert options.target_client == {"kafka.bootstrap.servers": "y:2"}
    assert options.policy.remote_topic("t") == "a.t"
    assert (options.transactional_id, options.progress_group) == ("mirror.a.b", "mirror.a.b")
    assert options.provenance_header is None
    assert options.sync_group_offsets


def test_settings_are_read_by_mirrormakers_names() -> None:
    options = options_of(
        topics="orders.*",
        groups="g",
        replication_policy_separator="_",
        refresh_topics_interval_seconds="7",
        sync_topic_configs_enabled="false",
        sync_group_offsets_enabled="FALSE",
        offset_lag_max="0",
        replication_factor="3",
        source_cluster_fetch_max_bytes="1000",
        target_cluster_compression_type="zstd",
    )

    assert options.policy.remote_topic("t") == "a_t"
    assert [name for name in ("orders1", "payments") if options.topics.has(name)] == ["orders1"]
    assert [name for name in ("g", "h") if options.groups.has(name)] == ["g"]
    assert (options.refresh_topics_interval_s, options.offset_lag_max, options.replication_factor) == (
        7,
        0,
        3,
    )
    assert not options.sync_topic_configs
    assert not options.sync_group_offsets
    assert options.source_client["kafka.fetch.max.bytes"] == "1000"
    assert options.target_client["kafka.compression.type"] == "zstd"


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "x.internal", "x-internal", "b.orders", ".hidden", "c.b.orders"]
)
def test_topics_of_the_cluster_itself_or_from_the_target_are_never_mirrored(topic: str) -> None:
    assert not options_of(topics=".*", topics_exclude="nothing").topics.has(topic)


def test_settings_that_depend_on_a_cluster_stay_behind() -> None:
    excluded = options_of().excluded_configs

    names = ("min.insync.replicas", "retention.ms", "leader.replication.throttled.replicas")
    assert [bool(excluded.fullmatch(name)) for name in names] == [True, False, True]
    assert not options_of(config_properties_exclude="").excluded_configs.fullmatch("retention.ms")


def test_the_identity_policy_marks_rows_unless_that_is_turned_off() -> None:
    assert MirrorOptions.from_options(NEEDED | IDENTITY).provenance_header == "mirror-provenance"
    assert MirrorOptions.from_options(NEEDED | IDENTITY | {"provenance.header": ""}).provenance_header is None
    assert options_of(provenance_header="from").provenance_header == "from"


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [
        ("source.cluster.alias", "", "is missing"),
        ("target.cluster.alias", "b.c", "is 'b.c': use at most 64 letters"),
        ("target.cluster.alias", "a", "is a, which is also the alias of the source"),
        ("topics", "(", r"'\(' is not a regular expression"),
        ("refresh.topics.interval.seconds", "0", "is 0; it must be from 1"),
        ("offset.lag.max", "many", "is 'many'; it must be a whole number"),
        ("replication.factor", "0", "is 0; use -1 for the default of the target cluster"),
        ("sync.topic.configs.enabled", "yes", "is 'yes'; it must be true or false"),
        ("startingOffsets", "middle", "one of earliest, latest"),
        (
            "source.cluster.isolation.level",
            "read_uncommitted",
            "records of aborted transactions would be mirrored",
        ),
        ("source.cluster.bootstrap.servers", "x:y", "'x:y' is not an address"),
        ("target.cluster.acks", "0", "cannot be sent again"),
        ("emit.heartbeats.enabled", "true", "is not supported: the progress"),
        ("sync.topic.acls.enabled", "true", "the administrators of the target"),
        ("tasks.max", "3", "is not an option here; the options are .*topics.exclude"),
        ("transactional.id", "", "is empty"),
    ],
)
def test_invalid_options_are_reported_with_their_names(option: str, text: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem) as raised:
        MirrorOptions.from_options(NEEDED | {option: text})

    assert raised.value.option == option


def test_names_are_compared_without_case_as_in_spark() -> None:
    options = options_of(FailOnDataLoss="false", Source_Cluster_Client_Id="x")

    assert not options.fail_on_data_loss
    assert options.source_client["kafka.client.id"] == "x"
    with pytest.raises(OptionError, match="records of aborted transactions would be mirrored"):
        options_of(Source_Cluster_Isolation_Level="read_uncommitted")
    with pytest.raises(OptionError, match="is given twice"):
        options_of(topics="a", Topics="b")


def test_an_id_is_taken_over_if_the_option_says_so() -> None:
    """A mirror whose checkpoint is gone is another query under the same id."""
    taken = sink_options(options_of(transactional_id_takeover="true"))

    assert SinkOptions.from_options(taken).takes_over
    assert not SinkOptions.from_options(sink_options(options_of())).takes_over


def test_options_that_confirm_the_behaviour_are_accepted() -> None:
    confirming = {"exactly.once.support": "required", "emit.checkpoints.enabled": "false"}

    assert MirrorOptions.from_options(NEEDED | confirming) == options_of()
