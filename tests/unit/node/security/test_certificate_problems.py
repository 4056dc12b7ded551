"""A node logs problems of its own certificates: others reject them, or will soon."""

import asyncio
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from ottla.node.security.certificate_problems import OwnNode, problem_of, warning_of
from ottla.node.security.security_reload import SecurityReload
from ottla.node.security.server_context import OwnCertificate
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF
from ottla.node.settings.listener_settings import Listener
from ottla.node.settings.security_settings import ListenerSecurity, listener_security

NOW = datetime(2030, 6, 1, 12, tzinfo=UTC)
NODE = OwnNode(3, ["three.example.org", "10.0.0.3"])


def security(home: Path, **texts: str) -> ListenerSecurity:
    given = {name.replace("_", "."): text for name, text in texts.items()}
    stores = {"ssl.keystore.location": str(home / "own.pem"), "ssl.truststore.location": str(home / "ca.pem")}
    listener = Listener(name="INNER", host="", port=9093, security_protocol="SSL")
    values = BROKER_CONFIG_DEF.parse_all({**stores, **given})
    return listener_security(listener, values, {}, is_between_nodes=True)


def certificate(*names: str, until: datetime = NOW + timedelta(days=90)) -> OwnCertificate:
    return OwnCertificate(
        subject="CN=x",
        alternative_names=frozenset(),
        host_names=frozenset(names),
        valid_since=NOW - timedelta(days=1),
        valid_until=until,
    )


@pytest.mark.parametrize("name", ["node-3", "three.example.org", "*.example.org", "10.0.0.3"])
def test_a_valid_certificate_with_the_name_of_the_node_has_no_problem(tmp_path: Path, name: str) -> None:
    settings = security(tmp_path)

    assert problem_of(certificate(name), settings, NODE, NOW) is None
    assert warning_of(certificate(name), settings, NOW) is None


def test_a_certificate_with_another_name_is_a_problem_where_nodes_check_names(tmp_path: Path) -> None:
    settings, other = security(tmp_path), certificate("node-4")

    assert problem_of(other, settings, NODE, NOW) == (
        "The certificate of the listener INNER was issued for node-4, so other nodes refuse it: it must name "
        "node-3 or 10.0.0.3 or three.example.org."
    )
    assert problem_of(other, replace(settings, is_between_nodes=False), NODE, NOW) is None
    unchecked = security(tmp_path, ssl_endpoint_identification_algorithm="")
    assert problem_of(other, unchecked, NODE, NOW) is None


def test_a_certificate_that_expires_soon_is_a_warning_and_an_expired_one_a_problem(tmp_path: Path) -> None:
    settings = security(tmp_path)
    soon = certificate("node-3", until=NOW + timedelta(days=12, hours=1))
    over = certificate("node-3", until=NOW - timedelta(seconds=1))
    early = replace(certificate("node-3"), valid_since=NOW + timedelta(hours=1))

    assert problem_of(soon, settings, NODE, NOW) is None
    assert "expires in 12 days, on 2030-06-13" in (warning_of(soon, settings, NOW) or "")
    assert "expired on 2030-06-01" in (problem_of(over, settings, NODE, NOW) or "")
    assert warning_of(over, settings, NOW) is None
    assert "check the clock" in (problem_of(early, settings, NODE, NOW) or "")


def test_a_problem_is_logged_once_a_day_until_the_certificate_is_renewed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))

    def issue(days: int) -> None:
        until = datetime.now(UTC) + timedelta(days=days)
        issued = ca.issue_cert("node-3", organization_unit_name="unit", not_after=until)
        issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))

    clock = [datetime.now(UTC)]
    wanted = security(tmp_path)
    reload = SecurityReload(lambda: {"INNER": wanted}, node=NODE, now=lambda: clock[0])

    async def scenario() -> None:
        issue(10)
        await reload.open(wanted)
        await reload.look()
        assert caplog.text.count("expires in") == 1 and reload.problems() == []
        clock[0] += timedelta(days=1)
        await reload.look()
        assert caplog.text.count("expires in") == 2
        clock[0] += timedelta(days=10)
        await reload.look()
        assert [one.levelno for one in caplog.records] == [logging.WARNING, logging.WARNING, logging.ERROR]
        assert "expired on" in reload.problems()[0]
        issue(100)
        await reload.look()
        assert reload.problems() == [] and caplog.text.count("The certificate of") == 3

    asyncio.run(scenario())
