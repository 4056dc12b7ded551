"""A mirror as a job of a file: its options are checked with their lines before Spark starts."""

from pathlib import Path

from ottla.pipeline.jobs.job import Task
from ottla.pipeline.mirror.mirror_options import MirrorOptions
from tests.unit.pipeline.jobs.job_texts import problems, read, with_job

MIRROR = (
    "mirror:",
    "  source.cluster.alias: a",
    "  source.cluster.bootstrap.servers: a:9092",
    "  target.cluster.alias: b",
    "  target.cluster.bootstrap.servers: b:9092",
    "  topics: orders.*",
    "  sync.group.offsets.interval.seconds: 5",
)


def test_a_mirror_is_identified_by_the_names_of_file_and_job(tmp_path: Path) -> None:
    job = read(tmp_path, with_job(*MIRROR)).jobs[0]

    assert isinstance(job.work, Task)
    assert job.work.kind == "mirror"
    assert job.work.options["transactional.id"] == "shop.totals"
    assert job.work.options["sync.group.offsets.interval.seconds"] == "5"


def test_a_transactional_id_of_the_users_is_kept(tmp_path: Path) -> None:
    job = read(tmp_path, with_job(*MIRROR, "  transactional.id: mine")).jobs[0]

    assert isinstance(job.work, Task)
    assert job.work.options["transactional.id"] == "mine"


def test_secrets_of_both_clusters_may_be_in_files(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("password=canary\n")
    jaas = (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="anna" '
        f'password="${{file:{tmp_path}/secrets:password}}";'
    )
    lines = [
        line
        for side in ("source", "target")
        for line in (
            f"  {side}.cluster.security.protocol: SASL_SSL",
            f"  {side}.cluster.sasl.mechanism: PLAIN",
            f"  {side}.cluster.sasl.jaas.config: '{jaas}'",
        )
    ]

    job = read(tmp_path, with_job(*MIRROR, *lines)).jobs[0]
    wrong = problems(tmp_path, with_job(*MIRROR, *lines, "  target.cluster.ssl.trustore.type: PEM"))

    assert isinstance(job.work, Task)
    assert job.work.options["source.cluster.sasl.jaas.config"] == jaas
    options = MirrorOptions.from_options(job.work.options)
    assert "canary" not in repr(options) and "canary" not in repr(options.target_client)
    assert [text.partition(":")[0] for text in wrong] == ["18"]
    assert "target.cluster.ssl.trustore.type: is not a security setting" in wrong[0]


def test_each_wrong_option_is_reported_with_its_line(tmp_path: Path) -> None:
    found = problems(tmp_path, with_job(*MIRROR, "  offset.lag.max: many", "  emit.heartbeats.enabled: true"))

    assert [text.split(" ")[0] for text in found] == ["12:", "13:"]
