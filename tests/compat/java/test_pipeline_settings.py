"""Each setting of Java's clients is honoured by the pipeline, has no effect there, or is rejected."""

import pytest

from ottla.pipeline.client.client_settings import honoured_names
from ottla.pipeline.client.setting_names import WITHOUT_EFFECT, is_secret, refusal_reason
from tests.compat.java.conftest import AskJava
from tests.compat.java.jars import KAFKA, OLDER_CLIENTS

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.mark.parametrize("artifacts", [OLDER_CLIENTS, KAFKA], ids=["3.9.2", "4.3.1"])
def test_every_setting_of_javas_clients_is_decided(ask_java: AskJava, artifacts: tuple[str, ...]) -> None:
    output = ask_java("SettingNames", artifacts=artifacts).decode()
    settings = dict(line.split() for line in output.splitlines())  # name to type
    assert len(settings) > 100

    for name, kind in settings.items():
        decisions = [name in honoured_names(), name in WITHOUT_EFFECT, refusal_reason(name) is not None]
        assert sum(decisions) == 1, name
        assert kind != "PASSWORD" or is_secret(name), name
