"""Every attack of `scripts/attack` stays within its limits.

The limits are CPU seconds, MiB and turns of the loop in CPU time. A turn may take twice as long here as
`scripts/attack` allows: on a busy machine others empty the caches of its processor.
"""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.node_fork import popen
from tests.thorough import THOROUGH

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

from attacks import trial
from attacks.all_attacks import ATTACKS, SECURED
from attacks.attack import Attack
from attacks.nodes import Nodes, start_nodes

pytestmark = pytest.mark.slow
ON_ONE = [
    pytest.param(one, marks=THOROUGH if one.is_thorough else (), id=one.name)
    for one in ATTACKS
    if 1 in one.node_counts and not one.settings and not one.is_secure
]
WITH_SETTINGS = [one for one in ATTACKS if 1 in one.node_counts and one.settings and not one.is_secure]
# A few of each kind; the others are for `scripts/attack --secure`: some are judged by the time of a clock.
QUICK = (
    "tls-junk",
    "tls-alerts",
    "wrong-passwords",
    "giant-scram",
    "forged-proofs",
    "giant-metadata-by-user",
)
ON_SECURED = [pytest.param(one, id=one.name) for one in SECURED if one.name in QUICK and not one.settings]
ON_THREE_WITH_SETTINGS = [one for one in ATTACKS if one.node_counts == (3,) and one.settings]
ON_THREE = [one for one in ATTACKS if 3 in one.node_counts and not one.settings and not one.is_secure]


def patiently(attack: Attack) -> Attack:
    return replace(attack, turn_s=2 * attack.turn_s)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    nodes = start_nodes(1, tmp_path_factory.mktemp("attacked"), {}, popen)
    yield nodes
    assert nodes.stop(), "the node did not end in its grace after SIGTERM"


@pytest.mark.parametrize("attack", ON_ONE)
def test_an_attack_on_a_node_stays_within_its_limits(node: Nodes, attack: Attack) -> None:
    outcome = trial.run(patiently(attack), node)

    assert outcome.missed == (), outcome


@pytest.mark.parametrize("attack", WITH_SETTINGS, ids=lambda one: one.name)
def test_an_attack_on_a_node_with_settings_stays_within_its_limits(tmp_path: Path, attack: Attack) -> None:
    nodes = start_nodes(1, tmp_path, attack.settings, popen)
    try:
        outcome = trial.run(patiently(attack), nodes)
    finally:
        ended = nodes.stop()

    assert outcome.missed == (), outcome
    assert ended, "the node did not end in its grace after SIGTERM"


@pytest.fixture(scope="module")
def secured_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    nodes = start_nodes(1, tmp_path_factory.mktemp("secured"), {}, popen, is_secure=True)
    yield nodes
    assert nodes.stop(), "the secured node did not end in its grace after SIGTERM"


@pytest.mark.parametrize("attack", ON_SECURED)
def test_an_attack_on_a_secured_node_stays_within_its_limits(secured_node: Nodes, attack: Attack) -> None:
    outcome = trial.run(patiently(attack), secured_node)

    assert outcome.missed == (), outcome


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    nodes = start_nodes(3, tmp_path_factory.mktemp("three-attacked"), {}, popen)
    yield nodes
    assert nodes.stop(), "a node did not end in its grace after SIGTERM"


@pytest.mark.thorough
@pytest.mark.parametrize("attack", ON_THREE, ids=lambda one: one.name)
def test_an_attack_on_one_of_three_nodes_fences_nobody(three_nodes: Nodes, attack: Attack) -> None:
    outcome = trial.run(patiently(attack), three_nodes)

    assert outcome.missed == (), outcome


@pytest.mark.thorough
@pytest.mark.parametrize("attack", ON_THREE_WITH_SETTINGS, ids=lambda one: one.name)
def test_an_attack_on_three_nodes_with_settings_fences_nobody(tmp_path: Path, attack: Attack) -> None:
    nodes = start_nodes(3, tmp_path, attack.settings, popen)
    try:
        outcome = trial.run(patiently(attack), nodes)
    finally:
        ended = nodes.stop()

    assert outcome.missed == (), outcome
    assert ended, "a node did not end in its grace after SIGTERM"


def test_the_script_names_its_attacks_and_refuses_others() -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "attack"
    listed = subprocess.run([script, "--list"], capture_output=True, text=True, timeout=60, check=True)
    unknown = subprocess.run([script, "nonsense"], capture_output=True, text=True, timeout=60, check=False)

    assert all(one.name in listed.stdout for one in ATTACKS)
    assert unknown.returncode == 2
    assert "nonsense" in unknown.stdout
