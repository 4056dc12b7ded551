"""Work that takes too long for the loop: the node runs it in a thread, and brings back its result.

`run` uses nothing but its argument, which never changes; so it may run beside the shard that asked for it.
"""

from dataclasses import dataclass
from typing import TypeAlias

from groupcoord.consumer_commands import RegexesResolved
from groupcoord.topic_regex import TopicRegex
from groupcoord.topics_view import TopicsView


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveRegexes:
    """Match the names of all topics with all the expressions of a group."""

    group_id: str
    regexes: tuple[str, ...]
    topics: TopicsView
    began_ms: int


AsideWork: TypeAlias = ResolveRegexes
AsideResult: TypeAlias = RegexesResolved


def run(work: AsideWork) -> AsideResult:
    """The result, as a command for the shard that asked."""
    compiled = {regex: TopicRegex.compile(regex) for regex in work.regexes}
    names = list(work.topics.names())
    return RegexesResolved(
        group_id=work.group_id,
        topics={
            regex: frozenset(name for name in names if pattern.matches(name))
            for regex, pattern in compiled.items()
        },
        version=work.topics.version,
        began_ms=work.began_ms,
    )
