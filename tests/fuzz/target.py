"""A target of the fuzzer: a reader of hostile bytes, its first inputs, and the errors that it may raise."""

import random
import resource
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.rest_api.rest_error import RestError

# CPU time of one execution. No input of some ten thousand bytes takes longer, even with traced coverage and
# on a shared machine.
MAX_CPU_S: Final = 0.5
# Growth of the process's peak memory during one execution.
MAX_GROWTH_BYTES: Final = 48 << 20
MAX_INPUT_BYTES: Final = 16 * 1024
ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A reader of bytes; `run` passes bytes to it, and `reads` says what it reads.

    KafkaError and RestError are permitted answers. Any other exception is a finding, and so are
    UNKNOWN_SERVER_ERROR, a status of 500, and an execution beyond the limits.
    """

    name: str
    reads: str
    corpus: Callable[[], Sequence[bytes]]
    run: Callable[[bytes], object]
    max_cpu_s: float = MAX_CPU_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A result that a target must not have, and the input that caused it."""

    place: str  # only the smallest input is kept of each place
    problem: str
    content: bytes


@dataclass(slots=True, kw_only=True)
class Tally:
    """The results of one target."""

    executions: int = 0
    accepted: int = 0  # without an error
    codes: dict[str, int] = field(default_factory=dict)
    longest_cpu_s: float = 0.0
    findings: dict[str, Finding] = field(default_factory=dict)

    def run(self, target: Target, content: bytes) -> None:
        """Run the target once, and record the result."""
        self.executions += 1
        peak, began_s = _peak_bytes(), time.thread_time()
        try:
            target.run(content)
            self.accepted += 1
        except KafkaError as error:
            self._note_code(error.code.name, error, content, error.code == ErrorCode.UNKNOWN_SERVER_ERROR)
        except RestError as error:
            self._note_code(str(error.status), error, content, not 400 <= error.status < 500)
        except Exception as error:
            self._add_finding(_place_of(error), f"{type(error).__name__}: {str(error)[:300]}", content)
        cpu_s, growth = time.thread_time() - began_s, _peak_bytes() - peak
        self.longest_cpu_s = max(self.longest_cpu_s, cpu_s)
        if cpu_s > target.max_cpu_s:
            self._add_finding("CPU", f"{cpu_s:.2f} CPU s, more than {target.max_cpu_s:g}", content)
        if growth > MAX_GROWTH_BYTES:
            self._add_finding("memory", f"{growth >> 20} MiB more, beyond {MAX_GROWTH_BYTES >> 20}", content)

    def _note_code(self, code: str, error: Exception, content: bytes, is_finding: bool) -> None:
        self.codes[code] = self.codes.get(code, 0) + 1
        if is_finding:
            self._add_finding(_place_of(error), f"{code}: {str(error)[:300]}", content)

    def _add_finding(self, place: str, problem: str, content: bytes) -> None:
        """Keep the finding, unless a smaller input has caused one at this place."""
        known = self.findings.get(place)
        if known is None or len(content) < len(known.content):
            self.findings[place] = Finding(place=place, problem=problem, content=content)


def try_all(jobs: Iterable[Callable[[], object]]) -> None:
    """Run all jobs, even after one is rejected; then raise the last rejection."""
    rejection: KafkaError | RestError | None = None
    for job in jobs:
        try:
            job()
        except (KafkaError, RestError) as error:
            rejection = error
    if rejection is not None:
        raise rejection


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _place_of(error: Exception) -> str:
    """Return the innermost frame of our own code, or else the innermost of all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if not one.filename.startswith("<") and _is_own(one.filename)]
    last = (own or list(frames))[-1]
    return f"{last.filename.removeprefix(f'{ROOT}/')}:{last.lineno} {last.name} {type(error).__name__}"


def _is_own(filename: str) -> bool:
    return filename.startswith(str(ROOT)) and "/.venv/" not in filename


# ---- without coverage: a deterministic walk around the corpus ---------------------------------------------

# Values at the ends of ranges and in formats, which readers are most likely to mishandle.
_INTERESTING_BYTES = (0, 1, 2, 3, 0x0C, 0x0E, 0x7F, 0x80, 0xFE, 0xFF)
_INTERESTING_SEQUENCES = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"%00",
    b"-1",
    b"1e999",
)


def mutated(corpus: Sequence[bytes], chance: random.Random) -> bytes:
    """Return an input of the corpus, perhaps spliced with another, changed in some places."""
    content = bytearray(chance.choice(corpus))
    if chance.random() < 0.15:
        other = chance.choice(corpus)
        content[chance.randrange(len(content) + 1) :] = other[chance.randrange(len(other) + 1) :]
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        # The first bytes have more lengths and kinds than the others.
        size = min(len(content), 24) if chance.random() < 0.4 else len(content)
        place, kind = chance.randrange(size + 1), chance.random()
        if kind < 0.35 and place < len(content):
            content[place] = chance.choice((*_INTERESTING_BYTES, chance.randrange(256)))
        elif kind < 0.5 and place < len(content):
            content[place] ^= 1 << chance.randrange(8)
        elif kind < 0.62:
            del content[place : place + chance.randrange(1, 9)]
        elif kind < 0.74:
            content[place:place] = chance.randbytes(chance.randrange(1, 5))
        elif kind < 0.86:
            one = chance.choice(_INTERESTING_SEQUENCES)
            content[place : place + (len(one) if chance.random() < 0.6 else 0)] = one
        elif kind < 0.94:
            end = place + chance.randrange(1, 17)
            content[place:place] = content[place:end] * chance.choice((1, 2, 40))
        else:
            del content[place:]
    if chance.random() < 0.1:
        # A repeated piece up to the maximum length, which shows quadratic time.
        place = chance.randrange(len(content) + 1)
        piece = bytes(content[place : place + chance.randrange(1, 4)]) or b" "
        if chance.random() < 0.3:
            piece = chance.choice((b" ", b"\\", b'\\"', b"9", b"[", b",", b"%41", b"\x80"))
        content[place:place] = piece * ((MAX_INPUT_BYTES - len(content)) // len(piece))
    return bytes(content[:MAX_INPUT_BYTES])


def walk(target: Target, seed: int, executions: int) -> Tally:
    """Run the corpus and this number of mutated inputs; equal seeds give equal inputs."""
    chance, tally, corpus = random.Random(f"{target.name} {seed}"), Tally(), target.corpus()
    for content in corpus:
        tally.run(target, content)
    for _ in range(executions):
        tally.run(target, mutated(corpus, chance))
    return tally
