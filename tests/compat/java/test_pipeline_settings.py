"""Java's clients as judges of the pipeline's settings: each name of theirs is read, of no use, or refused."""

import subprocess

import pytest

from pipeline.client.client_settings import honoured_names
from pipeline.client.setting_names import WITHOUT_EFFECT, is_secret, why_refused
from tests.compat.java.jars import kafka_classpath, why_no_java
from tests.compat.java.java_programs import java_program

JUDGE = "SettingNames"
JUDGE_TIMEOUT_S = 120

pytestmark = [pytest.mark.java, pytest.mark.slow]


def settings_of_java(release: str) -> dict[str, str]:
    """Name to type."""
    if (problem := why_no_java()) is not None:
        pytest.skip(problem)
    # The logging interface is named because a jar that came without its description brings nothing along.
    classpath = kafka_classpath(f"org.apache.kafka:kafka-clients:{release}", "org.slf4j:slf4j-api:1.7.36")
    if classpath is None:
        pytest.skip("Maven does not resolve kafka-clients")
    done = subprocess.run(
        java_program(JUDGE, classpath),
        capture_output=True,
        text=True,
        timeout=JUDGE_TIMEOUT_S,
        check=True,
    )
    return dict(line.split() for line in done.stdout.splitlines())


# 3.9.2 is what Spark's own connector brings along.
@pytest.mark.parametrize("release", ["3.9.2", "4.3.1"])
def test_every_setting_of_javas_clients_is_decided(release: str) -> None:
    settings = settings_of_java(release)
    assert len(settings) > 100

    for name, kind in settings.items():
        decisions = [name in honoured_names(), name in WITHOUT_EFFECT, why_refused(name) is not None]
        assert sum(decisions) == 1, name
        assert kind != "PASSWORD" or is_secret(name), name
