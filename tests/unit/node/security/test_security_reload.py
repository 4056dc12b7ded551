"""A running listener reloads certificates, and rejects those that it may not or cannot use."""

import asyncio
import errno
import os
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from ottla.logstore.words.errors import KafkaError
from ottla.node.security.retry_schedule import MAX_LOOKS_BETWEEN
from ottla.node.security.security_reload import SecurityReload
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF
from ottla.node.settings.listener_settings import Listener
from ottla.node.settings.security_settings import ListenerSecurity, listener_security
from ottla.node.tls.key_store import stamps_of

CA = trustme.CA()


def store(path: Path, name: str, *hosts: str, not_after: datetime | None = None) -> None:
    issued = CA.issue_cert(*hosts, common_name=name, organization_unit_name="unit", not_after=not_after)
    path.write_bytes(issued.private_key_and_cert_chain_pem.bytes())


def security(path: Path, **texts: str) -> ListenerSecurity:
    given = {name.replace("_", "."): text for name, text in texts.items()}
    values = BROKER_CONFIG_DEF.parse_all({"ssl.keystore.location": str(path), **given})
    listener = Listener(name="SSL", host="", port=9093, security_protocol="SSL")
    return listener_security(listener, values, {})


def play(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "hosts", "allowed", "is_taken"),
    [
        ("node", ("a", "b"), {}, True),
        ("node", ("a", "b", "c"), {}, True),
        ("NODE", ("a", "b"), {}, True),
        ("node", ("a",), {}, False),
        ("node", ("a",), {"ssl_allow_san_changes": "true"}, True),
        ("other", ("a", "b"), {}, False),
        ("other", ("a", "b"), {"ssl_allow_dn_changes": "true"}, True),
        ("other", ("a",), {"ssl_allow_dn_changes": "true"}, False),
    ],
)
def test_a_new_certificate_must_have_the_old_names_unless_changes_are_allowed(
    tmp_path: Path, name: str, hosts: tuple[str, ...], allowed: dict[str, str], is_taken: bool
) -> None:
    path = tmp_path / "own.pem"
    store(path, "node", "a", "b")
    wanted = security(path, **allowed)
    reload = SecurityReload(lambda: {"SSL": wanted})

    async def scenario() -> None:
        tls = await reload.open(wanted)
        first = tls.current
        store(path, name, *hosts)
        os.utime(path, ns=(1, 1))
        await reload.look()
        assert (tls.current is not first) is is_taken

    play(scenario)


def test_only_changed_files_are_read_and_a_failed_one_is_retried_when_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "own.pem"
    store(path, "node", "a")
    wanted = security(path)
    reload = SecurityReload(lambda: {"SSL": wanted})

    async def scenario() -> None:
        tls = await reload.open(wanted)
        first = tls.current
        await reload.look()
        assert tls.current is first
        path.unlink()
        for _ in range(3):
            await reload.look()
        assert tls.current is first
        assert caplog.text.count("keeps its old certificate") == 1, "logged once"
        assert "No such file" in reload.refused()["SSL"], "shown as long as it lasts"
        store(path, "node", "a")
        await reload.look()
        assert tls.current is not first and reload.refused() == {} and reload.listeners() == ["SSL"]

    play(scenario)


@pytest.mark.parametrize("failure", [errno.EIO, errno.EACCES, errno.ESTALE])
@pytest.mark.parametrize("setting", ["ssl.keystore.location", "ssl.truststore.location"])
def test_an_unreadable_store_is_retried_without_a_change(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    failure: int,
    setting: str,
) -> None:
    path, authorities = tmp_path / "own.pem", tmp_path / "ca.pem"
    store(path, "node", "a")
    authorities.write_bytes(CA.cert_pem.bytes())
    wanted = security(path, ssl_truststore_type="PEM", ssl_truststore_location=str(authorities))
    reload = SecurityReload(lambda: {"SSL": wanted})
    broken = path if setting == "ssl.keystore.location" else authorities
    real, attempts = Path.open, []

    def failing(self: Path, *given: Any, **more: Any) -> Any:
        if self == broken:
            attempts.append(self)
            raise OSError(failure, os.strerror(failure))
        return real(self, *given, **more)

    async def scenario() -> None:
        tls = await reload.open(wanted)
        first = tls.current
        store(path, "node", "a")
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", failing)
            for _ in range(200):
                await reload.look()
        assert tls.current is first and setting in reload.refused()["SSL"]
        assert len(attempts) == 9, "after 1, 2, 4, 8, 16, 32 looks, then every 60"
        assert caplog.text.count("keeps its old certificate") == 1
        assert "growing pauses of at most 5 minutes" in caplog.text
        for _ in range(MAX_LOOKS_BETWEEN):
            await reload.look()
        assert tls.current is not first and reload.refused() == {}
        second = tls.current
        for _ in range(2 * MAX_LOOKS_BETWEEN):
            await reload.look()
        assert tls.current is second, "a certificate in use is not read again"

    play(scenario)


def test_a_certificate_is_used_once_it_becomes_valid(
    tmp_path: Path,
) -> None:
    path, now = tmp_path / "own.pem", [datetime.now(UTC)]
    store(path, "node", "a")
    wanted = security(path)
    reload = SecurityReload(lambda: {"SSL": wanted}, now=lambda: now[0])

    async def scenario() -> None:
        tls = await reload.open(wanted)
        first = tls.current
        issued = CA.issue_cert(
            "a", common_name="node", organization_unit_name="unit", not_before=now[0] + timedelta(hours=1)
        )
        path.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
        await reload.look()
        assert tls.current is first and "not valid before" in reload.refused()["SSL"]
        now[0] += timedelta(hours=2)
        for _ in range(MAX_LOOKS_BETWEEN):
            await reload.look()
        assert tls.current is not first

    play(scenario)


def test_a_half_written_file_is_read_once_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "own.pem"
    store(path, "node", "a")
    wanted = security(path)
    reload = SecurityReload(lambda: {"SSL": wanted})

    async def scenario() -> None:
        tls = await reload.open(wanted)
        first = tls.current
        store(path, "node", "a")
        whole = path.read_bytes()
        for size in (0, 100, len(whole) // 2, len(whole) - 100):
            path.write_bytes(whole[:size])
            await reload.look()
            assert tls.current is first, size
        path.write_bytes(whole)
        await reload.look()
        assert tls.current is not first

    play(scenario)


def test_an_expired_certificate_does_not_replace_a_valid_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "own.pem"
    store(path, "node", "a")
    wanted = security(path)
    reload = SecurityReload(lambda: {"SSL": wanted})

    async def scenario() -> None:
        tls = await reload.open(wanted)
        first = tls.current
        store(path, "node", "a", not_after=datetime.now(UTC) - timedelta(days=1))
        await reload.look()
        assert tls.current is first and "expired" in reload.refused()["SSL"]

    play(scenario)


def test_a_changed_mode_is_a_change_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "own.pem"
    store(path, "node", "a")
    stores = [security(path).keystore]
    before = stamps_of(stores)
    path.chmod(0o640)

    assert stamps_of(stores) != before


def test_settings_are_checked_without_applying_them(tmp_path: Path) -> None:
    path, other, nowhere = (tmp_path / name for name in ("own.pem", "other.pem", "nowhere.pem"))
    store(path, "node", "a")
    store(other, "other", "a")
    wanted = security(path)
    reload = SecurityReload(lambda: {"SSL": wanted})

    async def scenario() -> None:
        tls = await reload.open(wanted)
        first = tls.current
        with pytest.raises(KafkaError, match="distinguished name"):
            await reload.check({"SSL": security(other)})
        with pytest.raises(KafkaError, match="No such file"):
            await reload.check({"SSL": security(nowhere)})
        await reload.check({"SSL": security(other, ssl_allow_dn_changes="true")})
        assert tls.current is first

    play(scenario)


def test_a_swapped_link_is_a_change(tmp_path: Path) -> None:
    """Kubernetes renews a secret like this: the paths stay, and a link leads to another directory."""
    for number in (1, 2):
        (tmp_path / f"v{number}").mkdir()
        store(tmp_path / f"v{number}" / "own.pem", "node", "a")
    data = tmp_path / "data"
    data.symlink_to("v1")
    wanted = security(data / "own.pem")
    reload = SecurityReload(lambda: {"SSL": wanted})

    async def scenario() -> None:
        tls = await reload.open(wanted)
        first = tls.current
        fresh = tmp_path / "fresh"
        fresh.symlink_to("v2")
        fresh.rename(data)
        await reload.look()
        assert tls.current is not first

    play(scenario)
