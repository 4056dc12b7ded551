"""`ottla user ...`: runs the commands and prints their results. Each returns the exit code.

A request changes one mechanism of a user, so some may be changed when a later one is rejected: each outcome
is printed, and the exit code is 1 if one was rejected.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.escaped_text import escape_controls
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.scram import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS, ScramMechanism
from ottla.node.cli.answers import print_json
from ottla.node.cli.failure import EXIT_FAILURE, EXIT_USAGE, CommandError, explain
from ottla.node.cli.topic_commands import print_table
from ottla.node.client import user_admin
from ottla.node.client.cluster_client import Client
from ottla.node.client.cluster_right import for_a_change
from ottla.node.client.refusal import Refused
from ottla.node.client.user_admin import ScramUser, words_of

Mechanisms = Sequence[ScramMechanism]
Wanted = Mapping[ScramMechanism, int]  # the iterations of each mechanism to be set


class Outcome(NamedTuple):
    """One mechanism of a user: it was changed, or the error."""

    mechanism: ScramMechanism
    iterations: int | None = None  # None if it was deleted
    error: KafkaError | None = None


def mechanisms_of(words: Sequence[str] | None) -> Mechanisms:
    """Parse the mechanisms of options, without duplicates; CommandError for another word."""
    found = []
    for word in dict.fromkeys(each.upper() for each in words or ()):
        if word not in SCRAM_MECHANISMS:
            raise CommandError(f"{word} is not one of {', '.join(SCRAM_MECHANISMS)}.", EXIT_USAGE)
        found.append(SCRAM_MECHANISMS[word])
    return found


def check_new_user(name: str, iterations: int | None) -> None:
    """Reject invalid names and iterations before a password is asked for; warn of a likely principal."""
    if not name:
        raise CommandError("The name of a user must not be empty.", EXIT_USAGE)
    if iterations is not None and not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise CommandError(
            f"--iterations must be {MIN_ITERATIONS} to {MAX_ITERATIONS}, not {iterations}.", EXIT_USAGE
        )
    if name.startswith("User:"):
        print(
            escape_controls(f"warning: this user logs in as {name}, and its principal is User:{name}"),
            file=sys.stderr,
        )
    if not name.isascii():
        # Kafka's brokers, and Ottla's, accept only ASCII names in SCRAM's messages.
        print("warning: a user whose name is not ASCII cannot log in with SCRAM", file=sys.stderr)


async def list_all(client: Client, as_json: bool) -> int:
    async with client:
        users = await user_admin.list_users(client)
    if as_json:
        print_json([_user_as_json(one) for one in users])
    elif users:
        print_table(
            ("user", "mechanism", "iterations"),
            [
                (one.name, words_of(mechanism), iterations)
                for one in users
                for mechanism, iterations in one.iterations.items()
            ],
        )
    return 0


async def plan_creation(
    client: Client, name: str, mechanisms: Mechanisms, iterations: int, *, if_not_exists: bool
) -> Wanted:
    """Return the mechanisms that need a new password: those by which the user cannot log in yet."""
    async with client:
        known = await _user(client, name)
    taken = [one for one in mechanisms if known is not None and one in known.iterations]
    if taken and not if_not_exists:
        raise Refused(
            f"User {name} has {_listed(taken)} already. `ottla user password` sets another password, and "
            "--if-not-exists leaves it as it is."
        )
    return {one: iterations for one in mechanisms if one not in taken}


async def plan_password(client: Client, name: str, mechanisms: Mechanisms, iterations: int | None) -> Wanted:
    """Return the mechanisms that get another password: all of a user, or those that are named."""
    async with client:
        known = await _user(client, name)
    if known is None:
        raise Refused(_no_user(name), is_missing=True)
    missing = [one for one in mechanisms if one not in known.iterations]
    if missing:
        raise Refused(
            f"User {name} has no password for {_listed(missing)}. `ottla user create` adds a mechanism.",
            is_missing=True,
        )
    return {
        one: had if iterations is None else iterations
        for one, had in known.iterations.items()
        if one is not ScramMechanism.UNKNOWN and (not mechanisms or one in mechanisms)
    }


def print_plan(name: str, wanted: Wanted, verb: str, *, as_json: bool) -> None:
    """Print the changes that would be made; without any, that the user exists already."""
    outcomes = [Outcome(mechanism, iterations) for mechanism, iterations in wanted.items()]
    if as_json:
        print_json(_as_json(name, outcomes, dry_run=True))
    elif outcomes:
        _print(name, outcomes, verb, dry_run=True, is_whole=True)
    else:
        print(f"{escape_controls(name)} already exists")


async def set_password(
    client: Client, name: str, wanted: Wanted, password: str, verb: str, *, shows_it: bool, as_json: bool
) -> int:
    """Set a password by mechanism; print it too if it was generated."""
    outcomes = []
    async with client:
        for mechanism, iterations in wanted.items():
            change = user_admin.upsertion(name, password, mechanism, iterations)
            try:
                error = (await user_admin.alter_users(client, upsertions=[change])).get(name)
            except KafkaError as failure:
                error = failure
            outcomes.append(Outcome(mechanism, iterations, error))
    _check_some_done(outcomes)
    if as_json:
        shown = _as_json(name, outcomes)
        print_json({**shown, "password": password} if shows_it else shown)
    else:
        _print(name, outcomes, verb, dry_run=False, is_whole=True)
        if shows_it:
            print(f"password {password}")
    return _print_failed(name, outcomes)


async def delete(
    client: Client,
    names: Sequence[str],
    mechanisms: Mechanisms,
    *,
    if_exists: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Delete users, or only these of their mechanisms."""
    code = 0
    rows: list[dict[str, object]] = []
    async with client:
        users = await for_a_change(user_admin.list_users(client, names), AclOperation.ALTER)
        known = {one.name: one for one in users}
        wanted = {name: _mechanisms_to_delete(name, known.get(name), mechanisms) for name in names}
        absent = [name for name, those in wanted.items() if not those]
        if absent and not if_exists:
            raise Refused(_not_there(absent[0], known.get(absent[0]), mechanisms), is_missing=True)
        for name, those in wanted.items():
            if not those and not as_json:
                print(f"{escape_controls(name)} does not exist")
                continue
            outcomes = await _unset(client, name, those, dry_run)
            rows.append(_as_json(name, outcomes, dry_run=dry_run))
            if not as_json:
                is_whole = set(those) == set(known[name].iterations)
                _print(name, outcomes, "delete", dry_run=dry_run, is_whole=is_whole)
            code = _print_failed(name, outcomes) or code
    if as_json:
        print_json(rows)
    return code


async def _user(client: Client, name: str) -> ScramUser | None:
    found = await for_a_change(user_admin.list_users(client, [name]), AclOperation.ALTER)
    return found[0] if found else None


async def _unset(client: Client, name: str, mechanisms: Mechanisms, dry_run: bool) -> list[Outcome]:
    outcomes = []
    for mechanism in mechanisms:
        error = None
        if not dry_run:
            gone = user_admin.deletion(name, mechanism)
            try:
                error = (await user_admin.alter_users(client, deletions=[gone])).get(name)
            except KafkaError as failure:
                error = failure
        outcomes.append(Outcome(mechanism, error=error))
    _check_some_done(outcomes)
    return outcomes


def _check_some_done(outcomes: Sequence[Outcome]) -> None:
    """Raise the first error if no change was made at all."""
    errors = [one.error for one in outcomes if one.error is not None]
    if errors and len(errors) == len(outcomes):
        raise errors[0]


def _mechanisms_to_delete(name: str, known: ScramUser | None, named: Mechanisms) -> Mechanisms:
    there = [] if known is None else list(known.iterations)
    return [one for one in there if not named or one in named]


def _not_there(name: str, known: ScramUser | None, mechanisms: Mechanisms) -> str:
    if known is None:
        return _no_user(name)
    return f"User {name} has no password for {_listed(mechanisms)}, so nothing was deleted."


def _no_user(name: str) -> str:
    return f"There is no SCRAM user {name}; `ottla user list` shows all."


# ---- output --------------------------------------------------------------------------------------


def _print(name: str, outcomes: Sequence[Outcome], verb: str, *, dry_run: bool, is_whole: bool) -> None:
    done = [one.mechanism for one in outcomes if one.error is None]
    past = f"would {verb}" if dry_run else f"{verb.rstrip('e')}ed"
    of, shown = _listed(done), escape_controls(name)
    if verb == "create":
        print(f"{past} {shown} with {of}")
    elif verb == "change":
        print(f"{past} the password of {shown} for {of}")
    else:
        print(f"{past} {shown}" if is_whole and len(done) == len(outcomes) else f"{past} {of} of {shown}")


def _print_failed(name: str, outcomes: Sequence[Outcome]) -> int:
    """Print on stderr the mechanisms that were not changed; return the exit code."""
    failed = [one for one in outcomes if one.error is not None]
    for one in failed:
        assert one.error is not None
        reason = explain(one.error)
        print(
            f"ottla: {words_of(one.mechanism)} of {escape_controls(name)} was not changed: {reason}",
            file=sys.stderr,
        )
    return EXIT_FAILURE if failed else 0


def _as_json(name: str, outcomes: Sequence[Outcome], *, dry_run: bool = False) -> dict[str, object]:
    return {
        "name": name,
        "mechanisms": [
            {
                "mechanism": words_of(one.mechanism),
                **({} if one.iterations is None else {"iterations": one.iterations}),
                "changed": one.error is None and not dry_run,
                **({} if one.error is None else {"error": one.error.detail or one.error.code.name}),
            }
            for one in outcomes
        ],
    }


def _user_as_json(user: ScramUser) -> dict[str, object]:
    return {
        "name": user.name,
        "mechanisms": [
            {"mechanism": words_of(mechanism), "iterations": iterations}
            for mechanism, iterations in user.iterations.items()
        ],
    }


def _listed(mechanisms: Mechanisms) -> str:
    return " and ".join(map(words_of, mechanisms))
