"""Every attack of `scripts/attack` stays within its limits.

The limits are CPU seconds, MiB, and turns of the loop in CPU time. A turn may take three times as long here
as in `scripts/attack`, and all of an attack twice as long, since other processes on a busy machine evict the
processor's caches.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.node_fork import popen
from tests.thorough import THOROUGH

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

from attacks import record_bombs
from attacks.all_attacks import ATTACKS, SECURED
from attacks.attack import Attack
from attacks.good_client import Seen
from attacks.nodes import start_nodes
from attacks.share_floods import many_groups
from attacks.tls_floods import Storm
from attacks.trial import Trials

pytestmark = pytest.mark.slow
# Smaller versions of attacks whose cost per item is constant; their limits are smaller in proportion.
SMALLER = {one.name: one for one in (many_groups(2_000),)}
ON_ONE = [
    pytest.param(SMALLER.get(one.name, one), marks=THOROUGH if one.is_thorough else (), id=one.name)
    for one in ATTACKS
    if 1 in one.node_counts and not one.settings and not one.is_secure
]
WITH_SETTINGS = [
    pytest.param(one, marks=THOROUGH if one.is_thorough else (), id=one.name)
    for one in ATTACKS
    if 1 in one.node_counts and one.settings and not one.is_secure and not one.is_scripts_alone
]
# A few of each kind. The others are for `scripts/attack --secure`, since some are judged by wall-clock time.
QUICK = (
    "tls-junk",
    "tls-alerts",
    "wrong-passwords",
    "salts-and-left",
    "giant-scram",
    "forged-proofs",
    "giant-metadata-by-user",
    "commands-of-administrators",
    "voters-nowhere-secured",
)
ON_SECURED = [pytest.param(one, id=one.name) for one in SECURED if one.name in QUICK and not one.settings]
SECURED_WITH_SETTINGS = [one for one in SECURED if one.name == "all-connections"]
# The costliest attack on each kind of work that nodes do for each other. `scripts/attack --nodes 3` has all.
KINDS_ON_THREE = (
    "describe-groups-many-names",  # rejected by the node that reads it
    "heartbeats-long-ids",
    "giant-metadata",  # answered by the node that gets the request
    "giant-offset-fetch",  # answered by coordinators, too
    "giant-fetch",
    "giant-create-topics",  # forwarded to the controller, and rejected
    "giant-change-create-topics",  # applied, and replicated to all nodes
    "giant-change-alter-topics",
    "giant-change-delete-topics",
    "giant-change-create-large-topic",
    "giant-change-delete-large-topic",
    "giant-change-auto-create-topics",
    "giant-all-nodes",
    "settings-that-grow",
    "describe-configs-flood",
    "impatient-clients",
    "quorum-port",
    "bombs-produced",  # decompressed by the leader, stored as they are by its followers
)
OF_THREE = [one for one in ATTACKS if one.name in KINDS_ON_THREE and not one.is_secure]
ON_THREE_WITH_SETTINGS = [one for one in OF_THREE if one.settings]
ON_THREE = [one for one in OF_THREE if not one.settings]


def patiently(attack: Attack) -> Attack:
    return replace(attack, turn_s=3 * attack.turn_s, cpu_s=2 * attack.cpu_s)


@contextmanager
def attacked(
    data: Path, count: int, settings: Mapping[str, str], *, is_secure: bool = False
) -> Iterator[Trials]:
    """Start attacked nodes with these settings; they must end within their grace period after SIGTERM."""
    nodes = start_nodes(count, data, settings, popen, is_secure=is_secure)
    trials = Trials(nodes)
    try:
        yield trials
    finally:
        trials.close()
        ended = nodes.stop()
    assert ended, "a node did not end within its grace period after SIGTERM"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    with attacked(tmp_path_factory.mktemp("attacked"), 1, {}) as trials:
        yield trials


@pytest.mark.parametrize("attack", ON_ONE)
def test_an_attack_on_a_node_stays_within_its_limits(node: Trials, attack: Attack) -> None:
    outcome = node.run(patiently(attack))

    assert outcome.missed == (), outcome


@pytest.mark.parametrize("attack", WITH_SETTINGS)
def test_an_attack_on_a_node_with_settings_stays_within_its_limits(tmp_path: Path, attack: Attack) -> None:
    with attacked(tmp_path, 1, attack.settings) as trials:
        outcome = trials.run(patiently(attack))

    assert outcome.missed == (), outcome


def test_a_node_stops_within_its_grace_period_while_it_searches_bombs_for_timestamps(tmp_path: Path) -> None:
    nodes = start_nodes(1, tmp_path, record_bombs.NOT_VALIDATING, popen)
    with ExitStack() as stack:
        try:
            record_bombs.prepare_times(nodes)
            clients = [stack.enter_context(nodes.connect()) for _ in range(record_bombs.GONE_CLIENTS)]
            for one in clients:
                record_bombs.begin_lookup(one)
            answered = [one for one in clients if not one.is_silent()]
        finally:
            ended = nodes.stop()

    assert ended, "the node did not end within its grace period after SIGTERM"
    assert len(answered) < len(clients), "some searches were under way at SIGTERM"
    assert "Traceback" not in nodes.log()


@pytest.fixture(scope="module")
def secured_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    with attacked(tmp_path_factory.mktemp("secured"), 1, {}, is_secure=True) as trials:
        yield trials


@pytest.mark.parametrize("attack", ON_SECURED)
def test_an_attack_on_a_secured_node_stays_within_its_limits(secured_node: Trials, attack: Attack) -> None:
    outcome = secured_node.run(patiently(attack))

    assert outcome.missed == (), outcome


@pytest.mark.parametrize("attack", SECURED_WITH_SETTINGS, ids=lambda one: one.name)
def test_an_attack_on_a_secured_node_with_settings_stays_within_its_limits(
    tmp_path: Path, attack: Attack
) -> None:
    with attacked(tmp_path, 1, attack.settings, is_secure=True) as trials:
        outcome = trials.run(patiently(attack))

    assert outcome.missed == (), outcome


def seen(p99_ms: float, *failures: str) -> Seen:
    return Seen(rounds=100, p50_ms=1.0, p99_ms=p99_ms, longest_ms=p99_ms, failures=failures, moved=())


# A shared machine opens fewer connections, so the node is judged by fewer, with wider limits.
SMALL_STORM = Storm(per_second=30, seconds=4.0, noise_ms=1_000.0)


def test_many_failing_connections_per_second_do_not_disturb_a_good_client(
    secured_node: Trials,
) -> None:
    [attack] = [one for one in SECURED if one.name == "tls-thousand-a-second"]

    outcome = secured_node.run(patiently(replace(attack, send=SMALL_STORM.send)))

    assert outcome.missed == (), outcome
    assert int(outcome.answered.split()[0]) >= 27, "enough connections were opened"


@pytest.mark.parametrize(
    ("opened", "elsewhere", "during", "missed"),
    [
        (7_199, seen(10), seen(10), "only 900 a second"),
        (7_200, seen(10), seen(21), "10.0 with the storm at another node, 21.0 at this one"),
        (7_200, seen(1), seen(9.1), "1.0 with the storm at another node, 9.1 at this one"),
        (7_200, seen(10), seen(10, "Closed"), "saw Closed"),
    ],
    ids=["too slow", "twice the p99", "beyond the noise", "a failure"],
)
def test_a_storm_with_too_few_connections_or_too_much_cost_for_others_fails(
    opened: int, elsewhere: Seen, during: Seen, missed: str
) -> None:
    with pytest.raises(AssertionError, match=missed):
        Storm().check(opened, seen(1), elsewhere, during)


def test_a_storm_without_an_effect_on_others_passes() -> None:
    assert Storm().check(7_200, seen(1), seen(10), seen(19.9)).startswith("900 a second")


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    with attacked(tmp_path_factory.mktemp("three-attacked"), 3, {}) as trials:
        yield trials


@pytest.mark.thorough
@pytest.mark.parametrize("attack", ON_THREE, ids=lambda one: one.name)
def test_an_attack_on_one_of_three_nodes_fences_no_broker(three_nodes: Trials, attack: Attack) -> None:
    outcome = three_nodes.run(patiently(attack))

    assert outcome.missed == (), outcome


@pytest.mark.thorough
@pytest.mark.parametrize("attack", ON_THREE_WITH_SETTINGS, ids=lambda one: one.name)
def test_an_attack_on_three_nodes_with_settings_fences_no_broker(tmp_path: Path, attack: Attack) -> None:
    with attacked(tmp_path, 3, attack.settings) as trials:
        outcome = trials.run(patiently(attack))

    assert outcome.missed == (), outcome


def test_each_kind_of_work_of_three_nodes_has_an_attack() -> None:
    known = {one.name for one in ATTACKS if 3 in one.node_counts}

    assert len(OF_THREE) == len(KINDS_ON_THREE) and known.issuperset(KINDS_ON_THREE)


def test_the_script_lists_its_attacks_and_rejects_unknown_names() -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "attack"
    listed = subprocess.run([script, "--list"], capture_output=True, text=True, timeout=60, check=True)
    unknown = subprocess.run([script, "nonsense"], capture_output=True, text=True, timeout=60, check=False)

    assert all(one.name in listed.stdout for one in ATTACKS)
    assert unknown.returncode == 2
    assert "nonsense" in unknown.stdout
