"""Tasks that take too long for the loop: the node runs them in a thread, and their results are commands.

Kafka has its CoordinatorExecutor for them. `steps` uses nothing but its arguments, which never change; so
it may run beside the shard that asked for it. It pauses again and again, so that tasks of other
groups have their turn and nobody waits for it to end.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeAlias

from ottla.groupcoord.assignors.all_assignors import ASSIGNORS
from ottla.groupcoord.assignors.assignor_spec import GroupSpec
from ottla.groupcoord.assignors.simple_assignor import ShareGroupSpec, assign_simple
from ottla.groupcoord.consumer.consumer_commands import RegexesResolved, TargetComputed
from ottla.groupcoord.group_hash import group_hash
from ottla.groupcoord.topic_regex import TopicRegex
from ottla.groupcoord.topics_view import TopicsView

# CPU time until others have their turn: an honest expression and 10,000 names take one to three of them.
SLICE_CPU_S: Final = 0.02
# CPU time of one expression, some 300,000 names by an honest one. What takes more is given up.
MAX_REGEX_CPU_S: Final = 1.0
# CPU time of all that a group has matched at once; the rest is matched the next time, and comes first then.
MAX_GROUP_CPU_S: Final = 5.0
NAMES_BETWEEN_LOOKS: Final = 8  # at the clock; a hostile expression takes 3 ms a name


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveRegexes:
    """Match the names of topics with the expressions of a group, in this order.

    `known`: what some of them matched before, of all names but those in `changed_since`.
    """

    group_id: str
    client_host: str  # of the member for whom it is done
    regexes: tuple[str, ...]
    topics: TopicsView
    began_ms: int
    known: Mapping[str, frozenset[str]] = field(default_factory=dict)
    changed_since: Mapping[str, frozenset[str]] = field(default_factory=dict)
    may_describe: Callable[[str], bool] | None = None  # what the member for whom it is done may see


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignPartitions:
    """Have an assignor share out the partitions of a large group; those of a share group `simple` does."""

    group_id: str
    client_host: str  # of one of its members
    epoch: int
    assignor: str
    spec: GroupSpec | ShareGroupSpec


ExecutorTask: TypeAlias = ResolveRegexes | AssignPartitions
ExecutorResult: TypeAlias = RegexesResolved | TargetComputed


def steps(task: ExecutorTask, cpu_s: Callable[[], float]) -> Generator[None, None, ExecutorResult]:
    """Do the task, pausing so that others have their turn; the result is a command for the shard that asked.

    `cpu_s` is the CPU time of the thread, which may be another one after each pause.
    """
    match task:
        case ResolveRegexes():
            return (yield from _resolve(task, cpu_s))
        case AssignPartitions(group_id=group_id, epoch=epoch, assignor=assignor, spec=spec):
            if isinstance(spec, ShareGroupSpec):
                shares = assign_simple(spec)
                return TargetComputed(group_id=group_id, epoch=epoch, targets=shares, instances={})
            return TargetComputed(
                group_id=group_id,
                epoch=epoch,
                targets=ASSIGNORS[assignor](spec),
                instances={one.instance_id: one.member_id for one in spec.members if one.instance_id},
            )


def run_task(task: ExecutorTask, cpu_s: Callable[[], float] = lambda: 0.0) -> ExecutorResult:
    """Do the task without a pause."""
    doing = steps(task, cpu_s)
    while True:
        try:
            next(doing)
        except StopIteration as end:
            result: ExecutorResult = end.value
            return result


def _resolve(task: ResolveRegexes, cpu_s: Callable[[], float]) -> Generator[None, None, RegexesResolved]:
    names = task.topics.names()
    resolved: dict[str, frozenset[str]] = {}
    given_up: list[str] = []
    spent_s = 0.0
    for regex in task.regexes:
        if spent_s > MAX_GROUP_CPU_S:
            break
        known, changed = task.known.get(regex), task.changed_since.get(regex, frozenset())
        look_at = names if known is None else [name for name in changed if name in names]
        matching, took_s = yield from _matching(regex, look_at, cpu_s)
        spent_s += took_s
        if matching is not None and task.may_describe is not None:
            matching = yield from _visible(matching, task.may_describe, cpu_s)
        if matching is None:
            given_up.append(regex)
        elif known is None or not changed:
            resolved[regex] = frozenset(matching) if known is None else known
        else:
            resolved[regex] = (known - changed).union(matching)
    union = frozenset[str]().union(*resolved.values())
    return RegexesResolved(
        group_id=task.group_id,
        topics=resolved,
        union=union,
        union_hash=group_hash(union, task.topics),
        version=task.topics.version,
        began_ms=task.began_ms,
        given_up=frozenset(given_up),
        cpu_ms=int(spent_s * 1000),
    )


def _visible(
    names: Sequence[str], may_describe: Callable[[str], bool], cpu_s: Callable[[], float]
) -> Generator[None, None, list[str]]:
    """Return the names that the member may see; the time does not count as that of its expression."""
    visible: list[str] = []
    began_s = cpu_s()
    for count, name in enumerate(names, 1):
        if may_describe(name):
            visible.append(name)
        if count % NAMES_BETWEEN_LOOKS == 0 and cpu_s() - began_s >= SLICE_CPU_S:
            yield
            began_s = cpu_s()
    return visible


def _matching(
    regex: str, names: Iterable[str], cpu_s: Callable[[], float]
) -> Generator[None, None, tuple[list[str] | None, float]]:
    """The names that match, None where that takes too much; and how long it took."""
    matching: list[str] = []
    left = iter(names)
    spent_s = 0.0
    while True:
        began_s = cpu_s()
        # Made anew in each slice: those of many groups, which wait for their turn, would take much memory.
        pattern = TopicRegex.compile(regex)
        while (slice_s := cpu_s() - began_s) < SLICE_CPU_S:
            some = list(islice(left, NAMES_BETWEEN_LOOKS))
            if not some:
                return matching, spent_s + slice_s
            matching += filter(pattern.matches, some)
        spent_s += slice_s
        if spent_s > MAX_REGEX_CPU_S:
            return None, spent_s
        del pattern
        yield
