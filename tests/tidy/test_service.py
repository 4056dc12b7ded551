"""packaging/ottla.service: systemd accepts it, and it has few rights."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT

UNIT = ROOT / "packaging" / "ottla.service"
MAX_EXPOSURE = 20  # the exposure by systemd-analyze, in tenths: 2.0 of 10
HARDENED = {
    "DynamicUser": "yes",
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "StateDirectory": "ottla",
    "Restart": "on-failure",
    "KillSignal": "SIGTERM",
    "CapabilityBoundingSet": "",
}


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """Return the unit with the program of this environment, as none is installed at the unit's path."""
    [program] = re.findall(r"^ExecStart=(\S+)", UNIT.read_text(), re.MULTILINE)
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace(program, str(Path(sys.executable).with_name("ottla"))))
    return copy


def analyze(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    return subprocess.run(["systemd-analyze", *map(str, words)], capture_output=True, text=True, check=False)


def test_systemd_finds_nothing_wrong_with_it(unit: Path) -> None:
    done = analyze("verify", unit)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_rates_the_exposure_as_low(unit: Path) -> None:
    done = analyze("security", "--offline=true", f"--threshold={MAX_EXPOSURE}", unit)

    assert done.returncode == 0, done.stdout[-200:]


def test_the_unit_stops_in_order_and_is_hardened() -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE))

    assert {name: settings[name] for name in HARDENED} == HARDENED
    assert int(settings["TimeoutStopSec"]) >= 60 and int(settings["LimitNOFILE"]) >= 100_000
    assert settings["ExecStart"] == "/opt/ottla/bin/ottla start --config /etc/ottla/server.properties"
