"""Attacks on running nodes, with a good client beside each: the cost, and the limits that it exceeded."""

import math
import time
from dataclasses import dataclass
from typing import Final

from attacks.attack import Attack
from attacks.good_client import GoodClient, Seen
from attacks.nodes import BETWEEN_SCRAPES_S, Nodes

# The CPU time of the nodes without an attack, with the good client, is the least of a few spans before each
# attack, since leftover work of an earlier attack may fall into one of them.
QUIET_S: Final = 0.4
QUIET_SPANS: Final = 3
# A node that takes frames while it answers others may still work for a moment after the last response.
SETTLE_S: Final = 0.5
MOST_P99_MS: Final = 250.0  # of the good client during an attack


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The cost of an attack beyond that of the good client; `missed` describes the exceeded limits."""

    attack: Attack
    answered: str
    cpu_s: float
    growth_mib: float
    turn_s: float
    seen: Seen
    missed: tuple[str, ...]


class Trials:
    """Attacks on the same nodes, one after another, beside one good client."""

    def __init__(self, nodes: Nodes, *, checks_latency: bool = False) -> None:
        """`checks_latency`: the good client's latency is judged too, which needs an idle machine."""
        self.nodes = nodes
        self._most_ms = MOST_P99_MS if checks_latency else math.inf
        self._good: GoodClient | None = None

    def run(self, attack: Attack) -> Outcome:
        """Run an attack; the nodes keep running. RuntimeError if one has ended."""
        attack.prepare(self.nodes)
        if self._good is None or not self._good.is_running:
            self._good = GoodClient(self.nodes)
        try:
            self._good.begin()
            return _outcome(attack, self.nodes, self._good, self._most_ms)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the good client."""
        if self._good is not None:
            self._good.kill()
            self._good = None


def _outcome(attack: Attack, nodes: Nodes, good: GoodClient, most_ms: float) -> Outcome:
    quiet_s = _quiet_cpu_share(nodes)
    nodes.longest_turn_s()  # discards the turns so far
    scraped = time.monotonic()
    nodes.reset_peaks()
    memory = nodes.rss_mib()
    cpu_s, began = nodes.cpu_s(), time.monotonic()
    missed: list[str] = []
    try:
        answered = attack.send(nodes.as_role(attack.role))
    except AssertionError as error:
        answered = str(error)
        missed.append(answered)
    time.sleep(SETTLE_S)
    if not nodes.is_running():
        raise RuntimeError(f"{attack.name} has stopped a node: {nodes.log()[-2000:]}")
    cpu_s = nodes.cpu_s() - cpu_s - quiet_s * (time.monotonic() - began)
    growth_mib = max(now - then for now, then in zip(nodes.peak_mib(), memory, strict=True))
    time.sleep(max(0.0, scraped + BETWEEN_SCRAPES_S - time.monotonic()))
    turn_s = nodes.longest_turn_s()
    seen = good.finish()
    if cpu_s > attack.cpu_s:
        missed.append(f"{cpu_s:.2f} CPU s, more than {attack.cpu_s:g}")
    if growth_mib > attack.growth_mib:
        missed.append(f"{growth_mib:.0f} MiB more, beyond {attack.growth_mib:g}")
    if turn_s > attack.turn_s:
        missed.append(f"a turn of the loop of {turn_s * 1000:.0f} ms CPU, beyond {attack.turn_s * 1000:g}")
    if seen.p99_ms > most_ms:
        missed.append(f"the good client's p99 was {seen.p99_ms:.0f} ms, more than {most_ms:g}")
    missed += [f"the good client saw {one}" for one in seen.failures]
    if seen.moved:
        missed.append(f"a broker was fenced: {seen.moved[0]}")
    if "Traceback" in nodes.log():
        missed.append("a stack trace in a node's log")
    return Outcome(
        attack=attack,
        answered=answered,
        cpu_s=max(0.0, cpu_s),
        growth_mib=growth_mib,
        turn_s=turn_s,
        seen=seen,
        missed=tuple(missed),
    )


def _quiet_cpu_share(nodes: Nodes) -> float:
    """Return the CPU seconds per second with the good client alone."""
    shares = []
    for _ in range(QUIET_SPANS):
        cpu_s, began = nodes.cpu_s(), time.monotonic()
        time.sleep(QUIET_S)
        shares.append((nodes.cpu_s() - cpu_s) / (time.monotonic() - began))
    return min(shares)
