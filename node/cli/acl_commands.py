"""`ottla acl ...`: runs the commands and prints their results. Each returns the exit code or its result."""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.escaped_text import escape_controls
from ottla.metadata_raft.acl import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    word,
)
from ottla.metadata_raft.acl_set import AclDecision, ClientIdentity, DefaultRule
from ottla.node.cli.acl_words import Resource, Selection, entry_in_words, in_words
from ottla.node.cli.answers import print_json
from ottla.node.cli.failure import EXIT_FAILURE, explain
from ottla.node.cli.topic_commands import print_table
from ottla.node.client.acl_admin import create_acls, delete_acls, exact_filter, list_acls
from ottla.node.client.acl_check import ALLOW_EVERYONE, SUPER_USERS, AccessRules, access_rules
from ottla.node.client.cluster_client import Client
from ottla.node.client.cluster_right import for_a_change

_HEADS = ("principal", "permission", "operation", "resource", "name", "pattern", "host")
_RULES = {
    DefaultRule.SUPER_USER: f"a super user ({SUPER_USERS})",
    DefaultRule.ALLOW: f"the resource has no ACL ({ALLOW_EVERYONE}=true)",
    DefaultRule.DENY: "no ACL allows it",
    DefaultRule.NOT_LOADED: "the node has not read its metadata yet",
}


class Question(NamedTuple):
    """A principal and host, and the operation on a resource that is checked for it."""

    client: ClientIdentity
    operation: AclOperation
    resource: Resource


async def list_all(client: Client, selection: Selection, *, as_json: bool) -> int:
    found = await find(client, selection)
    if as_json:
        print_json([_as_json(one) for one in found])
    elif found:
        _print(found)
    return 0


async def find(
    client: Client, selection: Selection, *, for_deletion: bool = False
) -> list[AccessControlEntry]:
    """Return the entries that are selected, sorted by resource."""
    right = AclOperation.ALTER if for_deletion else AclOperation.DESCRIBE
    found: list[AccessControlEntry] = []
    async with client:
        for one in selection.filters():
            found += await for_a_change(list_acls(client, one), right)
    return selection.choose(found)


async def create(
    client: Client, entries: Sequence[AccessControlEntry], *, dry_run: bool, as_json: bool
) -> int:
    """Create the entries that do not exist yet."""
    resources = {Resource(*_resource(one)): None for one in entries}
    async with client:
        there: set[AccessControlEntry] = set()
        for selected in Selection(list(resources)).filters():
            there.update(await for_a_change(list_acls(client, selected), AclOperation.ALTER))
        new = [one for one in entries if one not in there]
        refused = {} if dry_run else await create_acls(client, new)
    if new and len(refused) == len(new):
        raise next(iter(refused.values()))
    made = [one for one in new if one not in refused]
    if as_json:
        rows = [_as_json(one, changed=one in made and not dry_run, error=refused.get(one)) for one in entries]
        print_json(rows)
    else:
        old = len(entries) - len(new)
        print(f"{'would create' if dry_run else 'created'} {_count(len(made))}{_already(old)}")
        _print(made)
    return _print_refused(refused)


def show(entries: Sequence[AccessControlEntry], *, as_json: bool) -> None:
    """Print the entries that would be deleted."""
    if as_json:
        print_json([_as_json(one, changed=False) for one in entries])
    elif entries:
        print(f"would delete {_count(len(entries))}")
        _print(entries)
    else:
        print("no ACL is selected; `ottla acl list` shows all")


async def delete(client: Client, entries: Sequence[AccessControlEntry], *, as_json: bool) -> int:
    """Delete exactly these entries, even if others that match were created meanwhile."""
    async with client:
        deleted = await delete_acls(client, [exact_filter(one) for one in entries])
    outcomes = zip(entries, deleted, strict=True)
    refused = {entry: one.error for entry, one in outcomes if one.error is not None}
    if entries and len(refused) == len(entries):
        raise next(iter(refused.values()))
    gone = [one for one in entries if one not in refused]
    if as_json:
        print_json([_as_json(one, changed=one in gone, error=refused.get(one)) for one in entries])
    else:
        print(f"deleted {_count(len(gone))}")
    return _print_refused(refused)


async def check(client: Client, questions: Sequence[Question], *, must: bool, as_json: bool) -> int:
    """Print each decision and its rule; with `must`, the exit code is 1 if an operation is denied."""
    rules: dict[Resource, AccessRules] = {}
    async with client:
        for resource in dict.fromkeys(one.resource for one in questions):
            rules[resource] = await access_rules(client, resource.resource_type, resource.name)
    if any(one.settings is None for one in rules.values()):
        print(
            f"warning: this client could not read {SUPER_USERS} and {ALLOW_EVERYONE} of any node, so the "
            "answer assumes that they are not set",
            file=sys.stderr,
        )
    answers = [(one, rules[one.resource].decide(one.client, one.operation)) for one in questions]
    if as_json:
        print_json([_answer_as_json(one, decision) for one, decision in answers])
    else:
        print_table(
            ("principal", "host", "operation", "resource", "name", "allowed", "because"),
            [
                (
                    one.client.principal,
                    one.client.host,
                    in_words(AclOperation, one.operation),
                    in_words(ResourceType, one.resource.resource_type),
                    one.resource.name,
                    "yes" if decision.is_allowed else "no",
                    _rule_in_words(decision),
                )
                for one, decision in answers
            ],
        )
    is_allowed = all(decision.is_allowed for _, decision in answers)
    return 0 if is_allowed or not must else EXIT_FAILURE


def _rule_in_words(decision: AclDecision) -> str:
    rule = decision.rule
    return _RULES[rule] if isinstance(rule, DefaultRule) else entry_in_words(rule)


def _answer_as_json(question: Question, decision: AclDecision) -> dict[str, object]:
    rule = decision.rule
    return {
        "principal": question.client.principal,
        "host": question.client.host,
        "operation": question.operation.name,
        "resource_type": question.resource.resource_type.name,
        "resource_name": question.resource.name,
        "is_allowed": decision.is_allowed,
        "rule": rule.value if isinstance(rule, DefaultRule) else _as_json(rule),
    }


# ---- output --------------------------------------------------------------------------------------


def _resource(entry: AccessControlEntry) -> tuple[ResourceType, str, PatternType]:
    return (
        ResourceType(entry.resource_type),
        entry.resource_name,
        PatternType(entry.pattern_type),
    )


def _print(entries: Sequence[AccessControlEntry]) -> None:
    if entries:
        print_table(
            _HEADS,
            [
                (
                    one.principal,
                    in_words(AclPermissionType, one.permission_type),
                    in_words(AclOperation, one.operation),
                    in_words(ResourceType, one.resource_type),
                    one.resource_name,
                    in_words(PatternType, one.pattern_type),
                    one.host,
                )
                for one in entries
            ],
        )


def _as_json(
    entry: AccessControlEntry, *, changed: bool | None = None, error: KafkaError | None = None
) -> dict[str, object]:
    """Return an entry as a JSON object, with the names of the REST API."""
    return {
        "resource_type": word(ResourceType, entry.resource_type),
        "resource_name": entry.resource_name,
        "pattern_type": word(PatternType, entry.pattern_type),
        "principal": entry.principal,
        "host": entry.host,
        "operation": word(AclOperation, entry.operation),
        "permission": word(AclPermissionType, entry.permission_type),
        **({} if changed is None else {"changed": changed}),
        **({} if error is None else {"error": error.detail or error.code.name}),
    }


def _print_refused(refused: dict[AccessControlEntry, KafkaError]) -> int:
    """Print on stderr the entries that were rejected; return the exit code."""
    for entry, error in refused.items():
        print(f"ottla: {escape_controls(entry_in_words(entry))}: {explain(error)}", file=sys.stderr)
    return EXIT_FAILURE if refused else 0


def _count(number: int) -> str:
    return f"{number} ACL{'' if number == 1 else 's'}"


def _already(number: int) -> str:
    if not number:
        return ""
    return f"; {number} already existed"
