"""`ottla quota ...`: runs the commands and prints their results. Each returns the exit code."""

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.escaped_text import escape_controls
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.image import CLIENT_ID, IP, USER, QuotaEntity
from ottla.node.cli.answers import print_json
from ottla.node.cli.failure import EXIT_USAGE, CommandError
from ottla.node.cli.topic_commands import print_table
from ottla.node.client import quota_admin
from ottla.node.client.cluster_client import Client
from ottla.node.client.cluster_right import for_a_change
from ottla.node.client.quota_admin import DEFAULT, EXACT, QuotaFilterPart, in_words
from ottla.node.client.refusal import Refused
from ottla.node.quota.quota_entities import QuotaEntities, QuotaSharers

OF_CLIENTS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
OF_ADDRESSES: Final = ("connection_creation_rate",)
_EVERY: Final = "<default>"  # as Kafka's tools show a default entity

Quotas = Mapping[QuotaEntity, Mapping[str, float]]


class EntityWords(NamedTuple):
    """The options that name an entity: a name, or the default of a type."""

    user: str | None = None
    user_default: bool = False
    client_id: str | None = None
    client_id_default: bool = False
    ip: str | None = None
    ip_default: bool = False

    def entity(self) -> QuotaEntity:
        """Return the entity; CommandError if the options contradict each other. It may have no parts."""
        parts: list[tuple[str, str | None]] = []
        for kind, option, name, is_default in (
            (CLIENT_ID, "client-id", self.client_id, self.client_id_default),
            (IP, "ip", self.ip, self.ip_default),
            (USER, "user", self.user, self.user_default),
        ):
            if name is not None and is_default:
                raise CommandError(f"Give either --{option} or --{option}-default, not both.", EXIT_USAGE)
            if name == "":
                raise CommandError(
                    f"The name after --{option} must not be empty; --{option}-default is for all others.",
                    EXIT_USAGE,
                )
            if name is not None or is_default:
                parts.append((kind, name))
        if len(parts) > 1 and any(kind == IP for kind, _ in parts):
            raise CommandError("--ip cannot be combined with a user or a client id.", EXIT_USAGE)
        if self.user is not None and self.user.startswith("User:"):
            name = self.user.removeprefix("User:")
            print(
                escape_controls(
                    f"warning: quotas name users without User: in front; did you mean --user {name}?"
                ),
                file=sys.stderr,
            )
        return tuple(parts)


def some_entity(words: EntityWords) -> QuotaEntity:
    """Return the entity that is to be changed; CommandError if none is named."""
    entity = words.entity()
    if not entity:
        raise CommandError(
            "Name the entity of the quotas with --user, --client-id or --ip, or with --user-default, "
            "--client-id-default or --ip-default.",
            EXIT_USAGE,
        )
    return entity


def parse_quotas(pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Parse the values of quotas; CommandError unless each is a number above 0."""
    found: dict[str, float] = {}
    for key, text in pairs:
        try:
            value = float(text.replace("_", ""))
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            unit = "bytes a second, such as 1048576" if key.endswith("_byte_rate") else "such as 50"
            raise CommandError(f"{key} must be a number above 0 ({unit}), not {text!r}.", EXIT_USAGE)
        if key in found:
            raise CommandError(f"{key} is given twice.", EXIT_USAGE)
        found[key] = value
    return found


async def list_all(client: Client, entity: QuotaEntity, *, as_json: bool) -> int:
    """Print the quotas of all entities that have these parts and perhaps others."""
    async with client:
        found = await quota_admin.list_quotas(client, _parts(entity))
    rows = [
        (one, key, value)
        for one, values in sorted(found.items(), key=_order)
        for key, value in values.items()
    ]
    if as_json:
        print_json([_as_json(one, key, value) for one, key, value in rows])
    elif rows:
        print_table(
            ("user", "client id", "ip", "quota", "value"),
            [(*_cells(one), key, number(value)) for one, key, value in rows],
        )
    return 0


async def list_effective(client: Client, entity: QuotaEntity, *, as_json: bool) -> int:
    """Print the quotas that apply to a client of this user, client id or address."""
    named = dict(entity)
    if not entity or None in named.values():
        raise CommandError("--effective is for one client: name its --user, --client-id or --ip.", EXIT_USAGE)
    async with client:
        quotas = await quota_admin.list_quotas(client)
    rows = effective(quotas, named)
    if as_json:
        listed = [
            {
                "name": key,
                "value": None if found is None else number(found.value),
                "entity": None if found is None else dict(found.entity),
            }
            for key, found in rows.items()
        ]
        print_json(listed)
    else:
        print_table(
            ("quota", "value", "set for", "shared by"),
            [
                (key, None, None, None)
                if one is None
                else (key, number(one.value), in_words(one.entity), one.shared_by)
                for key, one in rows.items()
            ],
        )
    return 0


class Effective(NamedTuple):
    """A quota that applies: its value, the entity that it was set for, and the clients that share it."""

    value: float
    entity: QuotaEntity
    shared_by: str


def effective(quotas: Quotas, named: Mapping[str, str | None]) -> dict[str, Effective | None]:
    """Return the quota by key that applies to a client, by the nodes' own rule; None for no limit."""
    entities = list(quotas)
    address = named.get(IP)
    found: dict[str, Effective | None] = {}
    for key in OF_CLIENTS if address is None else OF_ADDRESSES:
        # The rule returns a value only; with indexes as values it identifies the entity.
        numbers = {one: {key: float(index)} for index, one in enumerate(entities) if key in quotas[one]}
        rule = QuotaEntities(numbers, key)
        if address is None:
            quota = rule.of_client(named.get(USER) or "", named.get(CLIENT_ID))
            index = None if quota is None else quota.limit
            shared_by = "" if quota is None else _sharers_in_words(quota.sharers)
        else:
            index, shared_by = rule.of_address(address), f"connections from {address}"
        if index is None:
            found[key] = None
        else:
            entity = entities[int(index)]
            found[key] = Effective(quotas[entity][key], entity, shared_by)
    return found


def _sharers_in_words(sharers: QuotaSharers) -> str:
    clients = (
        "all clients" if sharers.client_id is None else f"clients {sharers.client_id or 'without an id'}"
    )
    return clients if sharers.user is None else f"{clients} of user {sharers.user or 'without a name'}"


async def set_quotas(
    client: Client, entity: QuotaEntity, quotas: Mapping[str, float], *, dry_run: bool, as_json: bool
) -> int:
    async with client:
        await _alter(client, entity, quotas, dry_run)
    if as_json:
        rows = [{**_as_json(entity, key, value), "changed": not dry_run} for key, value in quotas.items()]
        print_json(rows)
        return 0
    for key, value in quotas.items():
        verb = "would change" if dry_run else "changed"
        print(f"{verb} {key} of {escape_controls(in_words(entity))} to {number(value)}")
    return 0


async def delete(
    client: Client, entity: QuotaEntity, keys: Sequence[str], *, dry_run: bool, as_json: bool
) -> int:
    """Remove quotas of an entity, all if none is named."""
    async with client:
        lookup = quota_admin.list_quotas(client, _parts(entity), is_strict=True)
        found = await for_a_change(lookup, AclOperation.ALTER_CONFIGS)
        there = found.get(entity, {})
        missing = [key for key in keys if key not in there]
        if not there or missing:
            what = f"quota {missing[0]}" if missing and there else "quotas"
            raise Refused(
                f"{_capitalized(in_words(entity))} has no {what}; `ottla quota list` shows all.",
                is_missing=True,
            )
        gone = list(dict.fromkeys(keys)) or sorted(there)
        await _alter(client, entity, dict.fromkeys(gone), dry_run)
    if as_json:
        rows = [{**_as_json(entity, key, None), "changed": not dry_run} for key in gone]
        print_json(rows)
        return 0
    for key in gone:
        verb = "would delete" if dry_run else "deleted"
        print(f"{verb} {key} of {escape_controls(in_words(entity))}")
    return 0


async def _alter(
    client: Client, entity: QuotaEntity, changes: Mapping[str, float | None], dry_run: bool
) -> None:
    for error in (await quota_admin.alter_quotas(client, {entity: changes}, only_check=dry_run)).values():
        if "Invalid configuration key" in error.detail:
            key = error.detail.rpartition(" ")[2]
            raise CommandError(
                f"{_capitalized(in_words(entity))} cannot have the quota {key}. Users and client ids have "
                f"{', '.join(OF_CLIENTS)}; addresses have {', '.join(OF_ADDRESSES)}."
            )
        raise error


# ---- output --------------------------------------------------------------------------------------


def number(value: float) -> int | float:
    """Return an integer for a value without a fraction, as it was most likely written."""
    return int(value) if value.is_integer() else value


def _parts(entity: QuotaEntity) -> list[QuotaFilterPart]:
    return [QuotaFilterPart(kind, DEFAULT if name is None else EXACT, name) for kind, name in entity]


def _cells(entity: QuotaEntity) -> list[str | None]:
    """Return the columns of an entity: user, client id, address."""
    by_type = dict(entity)
    return [
        (_EVERY if by_type[kind] is None else by_type[kind]) if kind in by_type else None
        for kind in (USER, CLIENT_ID, IP)
    ]


def _order(item: tuple[QuotaEntity, Mapping[str, float]]) -> list[tuple[bool, str]]:
    """Return the sort key of an entity: user, then client id, then address; a missing part sorts last."""
    return [(cell is None, cell or "") for cell in _cells(item[0])]


def _as_json(entity: QuotaEntity, key: str, value: float | None) -> dict[str, object]:
    return {"entity": dict(entity), "name": key, "value": None if value is None else number(value)}


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
