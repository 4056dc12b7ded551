"""Work that takes too long for the loop: the node runs it in a thread, and brings back its result.

`run` uses nothing but its argument, which never changes; so it may run beside the shard that asked for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from groupcoord.assignor_spec import GroupSpec
from groupcoord.assignors import ASSIGNORS
from groupcoord.consumer_commands import RegexesResolved, TargetComputed
from groupcoord.topic_regex import TopicRegex
from groupcoord.topics_view import TopicsView


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveRegexes:
    """Match the names of all topics with all the expressions of a group."""

    group_id: str
    regexes: tuple[str, ...]
    topics: TopicsView
    began_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeTargetAside:
    """Have an assignor share out the partitions of a large group."""

    group_id: str
    epoch: int
    assignor: str
    spec: GroupSpec


AsideWork: TypeAlias = ResolveRegexes | ComputeTargetAside
AsideResult: TypeAlias = RegexesResolved | TargetComputed


def run(work: AsideWork) -> AsideResult:
    """The result, as a command for the shard that asked."""
    match work:
        case ResolveRegexes():
            return _resolve(work)
        case ComputeTargetAside(group_id=group_id, epoch=epoch, assignor=assignor, spec=spec):
            return TargetComputed(
                group_id=group_id,
                epoch=epoch,
                targets=ASSIGNORS[assignor](spec),
                instances={one.instance_id: one.member_id for one in spec.members if one.instance_id},
            )


def _resolve(work: ResolveRegexes) -> RegexesResolved:
    names = list(work.topics.names())
    return RegexesResolved(
        group_id=work.group_id,
        topics={regex: _matching(regex, names) for regex in work.regexes},
        version=work.topics.version,
        began_ms=work.began_ms,
    )


def _matching(regex: str, names: Sequence[str]) -> frozenset[str]:
    pattern = TopicRegex.compile(regex)
    matching = frozenset(name for name in names if pattern.matches(name))
    pattern.forget()
    return matching
