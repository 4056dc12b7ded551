"""Kafka's own StandardAuthorizer as the reference for ours: decisions, the rules behind them, and filters.

ACLs and requests use a tiny alphabet, so that they often match. If several ACLs allow a request, Kafka names
the one that it looked at last as the rule, and we may name another; only this is not compared.

Two kinds of requests are left out because Kafka's authorizer fails: resources whose names begin with `*`, for
which it misses the ACLs of `*`, and names that begin with a character below `*`, for which it may throw or
search without end.
"""

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TypeVar

import pytest

from ottla.metadata_raft.acl import (
    AccessControlEntry,
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    host_in_entries,
)
from ottla.metadata_raft.acl_set import (
    DEFAULT_DENY,
    AclDecision,
    AclSet,
    AuthorizerSettings,
    ClientIdentity,
    check_invariants,
)
from ottla.node.audit.audit_event import access_decision
from ottla.node.audit.audit_line import text_of
from ottla.node.audit.repeated_events import EventLine
from tests.compat.java.conftest import AskJava
from tests.thorough import some_of

QUESTIONS = 20_000  # for each seed
QUESTIONS_BETWEEN_CHANGES = 20
CHANGES_PER_RUN = 25

pytestmark = [pytest.mark.java, pytest.mark.slow]
T = TypeVar("T")

TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)
PERMISSIONS = (AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY)
OPERATIONS = tuple(one for one in AclOperation if one > AclOperation.ANY)
OFTEN = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL)
CONFIGS = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
PRINCIPALS = ("User:ann", "User:bob", "Group:ann")
ADDRESSES = ("10.0.0.1", "10.0.0.2", "::1")
HOSTS = ("*", "*", "*", *map(host_in_entries, ADDRESSES))
ADDRESSES_OF_ALL_KINDS = (
    *("127.0.0.1", "::1", "::", "2001:db8::8:800:200c:417a", "2001:DB8:0:0:1::1", "fe80::1", "ff02::2"),
    *("::ffff:10.1.2.3", "::ffff:a01:203", "64:ff9b::1.2.3.4"),
)


@pytest.mark.parametrize("seed", some_of(range(15), of_each_run=1))
def test_kafkas_authorizer_decides_the_same_by_the_same_rules(ask_java: AskJava, seed: int) -> None:
    scenario = Scenario(Random(seed))
    lines = list(scenario.lines())

    answers = ask_java("AuthorizerReference", questions="".join(lines).encode()).decode().split("\n")[:-1]

    sent = [line for line in lines if line.startswith(("ask", "type", "filter"))]
    assert len(sent) == len(answers) == len(scenario.answers) >= QUESTIONS
    wrong = [
        (question, ours, theirs)
        for question, ours, theirs in zip(sent, scenario.answers, answers, strict=True)
        if ours != without_allowing_rule(theirs)
    ]
    assert not wrong, f"{len(wrong)}: {wrong[:3]}"
    kinds = Counter(kind(answer) for answer in scenario.answers)
    assert min(kinds[one] for one in KINDS) > QUESTIONS / 250, kinds


def test_hosts_are_written_as_java_writes_them(ask_java: AskJava) -> None:
    given = "".join(f"host\t{address}\n" for address in ADDRESSES_OF_ALL_KINDS)

    answers = ask_java("AuthorizerReference", questions=given.encode()).decode().split("\n")[:-1]

    assert [host_in_entries(address) for address in ADDRESSES_OF_ALL_KINDS] == answers


def test_the_audit_log_says_what_kafkas_says(ask_java: AskJava) -> None:
    write, topic = AclOperation.WRITE, ResourceType.TOPIC
    denial = AccessControlEntry(
        topic, "orders", PatternType.LITERAL, "User:bob", "*", write, AclPermissionType.DENY
    )
    questions = [
        ("User:bob", "10.0.0.1", write, topic, "orders", AclDecision(False, denial)),
        ("User:bob", "::1", AclOperation.READ, ResourceType.GROUP, "a b", DEFAULT_DENY),
        ("User:CN=a,O=b", "::1", AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "c", DEFAULT_DENY),
        ("User:ann", "10.0.0.1", write, ResourceType.TRANSACTIONAL_ID, "x", DEFAULT_DENY),
    ]
    lines = ["settings\tfalse\t-\n", "add\t1\t" + "\t".join(map(str, map(_number, denial))) + "\n"]
    for principal, host, operation, resource, name, _ in questions:
        lines.append(f"audit\t{principal}\t{host}\t{operation.value}\t{resource.value}\t{name}\n")

    theirs = ask_java("AuthorizerReference", questions="".join(lines).encode()).decode().split("\n")[:-1]

    ours = [
        text_of(EventLine(access_decision(principal, host_in_entries(host), "Produce", *more), 1, 0, 0))
        for principal, host, *more in questions
    ]
    assert ours == theirs


def _number(word: object) -> object:
    return int(word) if isinstance(word, int) else word


KINDS = (
    *("ALLOWED SuperUser", "ALLOWED DefaultAllow", "DENIED DefaultDeny", "DENIED MatchingAcl"),
    *("ALLOWED MatchingAcl", "ALLOWED", "DENIED", "entries", "no entries"),
)


def kind(answer: str) -> str:
    if not answer or answer.startswith("StandardAcl"):
        return "entries" if answer else "no entries"
    return answer.partition("(")[0].replace("\t", " ")


def without_allowing_rule(answer: str) -> str:
    return "ALLOWED\tMatchingAcl" if answer.startswith("ALLOWED\tMatchingAcl") else answer


class Scenario:
    """Changes of ACLs and requests about them, as lines for the reference; `answers` are ours."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.letters = "aab"
        self.acls = AclSet()
        self.settings = AuthorizerSettings()
        self.answers: list[str] = []
        self.last_id = 0

    def lines(self) -> Iterator[str]:
        while len(self.answers) < QUESTIONS:
            yield self.restart()
            for _ in range(CHANGES_PER_RUN):
                yield from self.change()
                for _ in range(QUESTIONS_BETWEEN_CHANGES):
                    yield self.question()
            check_invariants(self.acls)

    def restart(self) -> str:
        """Start again with other settings."""
        is_open, user = self.random.random() < 0.5, self.random.choice((*PRINCIPALS, None, None, None))
        self.letters = self.random.choice(("aab", "aab*", "ab*~"))
        self.acls = AclSet()
        users = frozenset([user] if user else [])
        self.settings = AuthorizerSettings(users, is_open)
        return line("settings", str(is_open).lower(), user or "-")

    def change(self) -> Iterator[str]:
        """Add and remove some ACLs, as one change of the set."""
        changes: dict[bytes, AccessControlEntry | None] = {}
        known = sorted(self.acls.by_id)
        gone = self.random.sample(known, min(len(known), self.random.choice((0, 0, 0, 1, 2))))
        for entry_id in gone:
            changes[entry_id] = None
            yield line("remove", int.from_bytes(entry_id))
        for _ in range(self.random.choice((0, 1, 1, 2))):
            entry = self.entry()
            if entry in self.acls.ids or entry in changes.values():
                continue
            self.last_id += 1
            changes[self.last_id.to_bytes(16)] = entry
            yield line("add", self.last_id, *entry)
        self.acls = self.acls.changed(changes)

    def question(self) -> str:
        random = self.random
        requester = ClientIdentity(random.choice(PRINCIPALS), random.choice(ADDRESSES))
        ours = ClientIdentity(requester.principal, host_in_entries(requester.host))
        operation, kind = self.operation(), random.choice(TYPES)
        number = random.random()
        if number < 0.7:
            name = self.name()
            if name != "*":
                name = name.lstrip("*") or "a"
            decision = self.acls.decide(ours, operation, kind, name, self.settings)
            self.answers.append(self.line_of(decision))
            return line("ask", *requester, operation, kind, name)
        if number < 0.85:
            decision = self.acls.decide_by_resource_type(ours, operation, kind, self.settings)
            self.answers.append(decision_text(decision))
            return line("type", *requester, operation, kind)
        selected = self.filter()
        self.answers.append(";".join(sorted(str(entry) for _, entry in self.acls.matching(selected))))
        return line("filter", *("-" if value is None else value for value in selected))

    def line_of(self, decision: AclDecision) -> str:
        if decision.is_allowed and isinstance(decision.rule, AccessControlEntry):
            assert decision.rule in self.acls.ids
            assert decision.rule.permission_type == AclPermissionType.ALLOW
        return without_allowing_rule(f"{decision_text(decision)}\t{decision.rule_text}")

    def entry(self) -> AccessControlEntry:
        random = self.random
        if len(self.acls) and random.random() < 0.25:  # denies what another one allows
            known = random.choice(sorted(self.acls.ids))
            return known._replace(permission_type=AclPermissionType.DENY, host="*")
        principal = random.choice((*PRINCIPALS, "User:*"))
        return AccessControlEntry(
            random.choice(TYPES),
            self.name(),
            random.choice(PATTERNS),
            principal,
            random.choice(HOSTS),
            self.operation(),
            random.choice(PERMISSIONS),
        )

    def filter(self) -> AclFilter:
        return AclFilter(
            self.or_any((*TYPES, ResourceType.TRANSACTIONAL_ID), ResourceType.ANY),
            self.or_any((self.name(),), None),
            self.random.choice((*PATTERNS, PatternType.ANY, PatternType.MATCH, PatternType.MATCH)),
            self.or_any((*PRINCIPALS, "User:*"), None),
            self.or_any(HOSTS, None),
            self.or_any((self.operation(),), AclOperation.ANY),
            self.or_any(PERMISSIONS, AclPermissionType.ANY),
        )

    def or_any(self, values: tuple[T, ...], anything: T) -> T:
        return anything if self.random.random() < 0.7 else self.random.choice(values)

    def operation(self) -> AclOperation:
        return self.random.choice(self.random.choice((OFTEN, OFTEN, OFTEN, CONFIGS, OPERATIONS)))

    def name(self) -> str:
        if self.random.random() < 0.1:
            return "*"
        return "".join(self.random.choices(self.letters, k=self.random.randint(1, 4)))


def decision_text(decision: AclDecision) -> str:
    return "ALLOWED" if decision.is_allowed else "DENIED"


def line(*words: str | int) -> str:
    return "\t".join(str(int(word) if isinstance(word, int) else word) for word in words) + "\n"
