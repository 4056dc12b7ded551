"""`ottla group` as a process, against a node; tests/compat/clients/test_ottla.py runs it on Apache Kafka."""

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.compat.command_line import TIMEOUT_S, ottla, start
from tests.compat.servers import Server
from tests.compat.wire_client import WireClient

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_process_is_left")]
TEN_EACH = "".join(f'{{"value":"v{number}","partition":{number % 2}}}\n' for number in range(20))


@pytest.fixture
def topic(node: Server) -> str:
    """Create a topic of two partitions with ten records each."""
    name = f"of-groups-{uuid4().hex[:8]}"
    ottla(node.bootstrap, "topic", "create", name, "-p", "2")
    ottla(node.bootstrap, "produce", name, "--input", "json", given=TEN_EACH)
    return name


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:8]}"


def json_of(node: Server, *arguments: str) -> Any:
    return json.loads(ottla(node.bootstrap, "group", *arguments, "--output", "json"))


def join(node: Server, group: str, topic: str) -> "subprocess.Popen[str]":
    """Start a member that keeps reading; return when the group is stable."""
    member = start(node.bootstrap, "consume", topic, "--group", group)
    deadline = time.monotonic() + TIMEOUT_S
    while [one["state"] for one in json_of(node, "list") if one["group"] == group] != ["Stable"]:
        assert time.monotonic() < deadline
    return member


def leave(member: "subprocess.Popen[str]") -> None:
    """Stop a member, which commits its position and leaves the group."""
    member.send_signal(signal.SIGTERM)
    member.communicate(timeout=TIMEOUT_S)
    assert member.returncode == 143


def offsets(node: Server, group: str) -> list[int | None]:
    return [one["committed"] for one in json_of(node, "describe", group)[0]["partitions"]]


def reset(node: Server, group: str, *arguments: str) -> list[int]:
    return [one["new_offset"] for one in json_of(node, "reset", group, *arguments)]


def test_the_reasons_of_rebalances_are_shown(node: Server, topic: str, group: str) -> None:
    leave(join(node, group, topic))

    [described] = json_of(node, "describe", group, "--timeline")
    joined, left = described["rebalances"]
    assert [one["cause"] for one in joined["events"]] == ["MemberJoined"]
    assert [one["cause"] for one in left["events"]] == ["MemberLeft"]
    assert (joined["generation_after"], joined["members"], left["members"]) == (1, 1, 0)
    assert "rebalances" not in json_of(node, "describe", group)[0]
    table = ottla(node.bootstrap, "group", "describe", group, "--timeline").splitlines()
    assert table[-2].split()[2:5] == ["0", "->", "1"]


def test_the_reasons_of_rebalances_of_a_kip_848_group_are_shown(node: Server, topic: str, group: str) -> None:
    request = {"subscribed_topic_names": [topic], "topic_partitions": [], "rebalance_timeout_ms": 60_000}
    with WireClient(node.bootstrap) as client:
        for epoch in (0, -1):
            member = {"group_id": group, "member_id": "anna", "member_epoch": epoch}
            assert client.call("consumer_group_heartbeat", 1, **member, **request).error_code == 0

    [described] = json_of(node, "describe", group, "--timeline")

    joined, left = described["rebalances"]
    assert [(one["cause"], one["member"]) for one in joined["events"]] == [("MemberJoined", "anna")]
    assert [(one["cause"], one["member"]) for one in left["events"]] == [("MemberLeft", "anna")]
    assert (joined["generation_after"], joined["members"], left["members"]) == (2, 1, 0)


def test_a_group_from_its_first_member_to_its_end(node: Server, topic: str, group: str) -> None:
    where = node.bootstrap
    member = join(node, group, topic)

    [described] = json_of(node, "describe", group)
    [one] = json_of(node, "members", group)
    assert (described["state"], described["type"], described["assignor"]) == ("Stable", "classic", "range")
    assert [place["partition"] for place in one["partitions"]] == [0, 1] and one["client"] == "ottla"
    assert {place["member"] for place in described["partitions"]} == {one["member"]}
    assert f"{topic}:0,1" in ottla(where, "group", "members", group, "--verbose")
    assert f"Group {group} is active (Stable)" in ottla(
        where, "group", "reset", group, "--to-earliest", "--all-topics", "--execute", code=1
    )
    assert "NON_EMPTY_GROUP" in ottla(where, "group", "delete", group, code=1)
    subscribed = ottla(where, "group", "delete-offsets", group, "--topic", f"{topic}:0", code=1)
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in subscribed

    leave(member)
    assert offsets(node, group) == [10, 10]
    assert (
        ottla(where, "group", "delete-offsets", group, "--topic", f"{topic}:0")
        == f"deleted the offset of {topic}-0 from {group}\n"
    )
    assert offsets(node, group) == [10]
    assert ottla(where, "group", "delete", group) == f"deleted {group}\n"
    assert "GROUP_ID_NOT_FOUND" in ottla(where, "group", "describe", group, code=1)
    assert "GROUP_ID_NOT_FOUND" in ottla(where, "group", "delete", group, code=1)
    assert "does not exist" in ottla(where, "group", "delete", group, "--if-exists")


def test_all_groups_without_members_are_deleted_and_the_others_are_named(
    node: Server, group: str, topic: str
) -> None:
    member = join(node, group, topic)
    refused = ottla(node.bootstrap, "group", "delete", "--all-groups", code=1)
    assert "NON_EMPTY_GROUP" in refused and group in refused

    leave(member)
    assert f"deleted {group}\n" in ottla(node.bootstrap, "group", "delete", "--all")
    assert ottla(node.bootstrap, "group", "delete", "--all") == ""
    assert "Give either the names of groups or --all" in ottla(
        node.bootstrap, "group", "delete", group, "--all", code=2
    )


def test_a_group_has_settings_of_its_own(node: Server, group: str) -> None:
    where, session = node.bootstrap, "consumer.session.timeout.ms"
    assert ottla(where, "group", "config", group, "--set", f"{session}=50000").startswith("changed")

    assert ottla(where, "group", "config", group) == f"{session}=50000\n"
    shown = {one["name"]: (one["value"], one["source"]) for one in json_of(node, "config", group, "--all")}
    assert shown[session] == ("50000", "group")
    assert shown["consumer.heartbeat.interval.ms"] == ("5000", "default")
    refused = ottla(where, "group", "config", group, "--set", f"{session}=1", code=1)
    assert "must be greater than or equal to group.consumer.min.session.timeout.ms" in refused
    ottla(where, "group", "config", group, "--reset", session)
    assert "overrides no settings" in ottla(where, "group", "config", group)


def test_groups_are_listed_by_state_and_type(node: Server, topic: str, group: str) -> None:
    ottla(node.bootstrap, "group", "reset", group, "--to-latest", "--topic", topic, "--execute")

    def is_listed(*arguments: str) -> bool:
        return group in [one["group"] for one in json_of(node, "list", *arguments)]

    assert is_listed() and is_listed("--state", "stable,empty", "--type", "Classic")
    assert not is_listed("--state", "stable") and not is_listed("--type", "share")
    assert "Unknown group state 'odd'" in ottla(node.bootstrap, "group", "list", "--state", "odd", code=2)


def test_a_reset_is_a_dry_run_by_default(node: Server, topic: str, group: str) -> None:
    where = node.bootstrap
    shown = ottla(where, "group", "reset", group, "--to-offset", "4", "--topic", topic)
    assert [line.split()[-2:] for line in shown.splitlines()[1:]] == [["-", "4"], ["-", "4"]]
    assert "GROUP_ID_NOT_FOUND" in ottla(where, "group", "describe", group, code=1)

    ottla(where, "group", "reset", group, "--to-offset", "4", "--topic", topic, "--execute")

    assert offsets(node, group) == [4, 4]


def test_offsets_are_reset_in_every_way(node: Server, topic: str, group: str, tmp_path: Path) -> None:
    where = node.bootstrap
    reset(node, group, "--to-offset", "4", "--topic", f"{topic}:0", "--execute")
    every = ("--topic", topic)

    assert reset(node, group, "--to-earliest", *every) == [0, 0]
    assert reset(node, group, "--to-latest", *every) == [10, 10]
    assert reset(node, group, "--to-current", *every) == [4, 10]
    assert reset(node, group, "--shift-by", "-3", "--all-topics") == [1]
    assert reset(node, group, "--shift-by", "99", "--all-topics") == [10]
    assert reset(node, group, "--to-offset", "-5", *every) == [0, 0]
    assert reset(node, group, "--by-duration", "PT1H", *every) == [0, 0]
    assert reset(node, group, "--to-datetime", "2099-01-01T00:00:00.000", *every) == [10, 10]
    assert reset(node, group, "--to-datetime", "1969-12-31T23:59:59.999", *every) == [0, 0]
    refused = ottla(where, "group", "reset", group, "--shift-by", "1", *every, code=1)
    assert f"{topic}-1 cannot be shifted" in refused

    plan = tmp_path / "plan.csv"
    plan.write_text(ottla(where, "group", "reset", group, "--to-offset", "7", *every, "--export"))
    assert plan.read_text() == f"{topic},0,7\n{topic},1,7\n"
    assert reset(node, group, "--from-file", str(plan), "--execute") == [7, 7] == offsets(node, group)
    plan.write_text(f"{group},{topic},0,1\nother,{topic},0,2\n")
    assert reset(node, group, "--from-file", str(plan)) == [1]


def test_several_groups_are_reset_together_or_not_at_all(node: Server, topic: str, group: str) -> None:
    busy = f"{group}-busy"
    member = join(node, busy, topic)

    both = ("group", "reset", group, busy, "--to-earliest", "--topic", topic, "--execute")
    assert "is active" in ottla(node.bootstrap, *both, code=1)
    assert "GROUP_ID_NOT_FOUND" in ottla(node.bootstrap, "group", "describe", group, code=1)
    leave(member)
    ottla(node.bootstrap, *both)

    assert offsets(node, group) == offsets(node, busy) == [0, 0]


def test_all_groups_are_reset_but_those_with_members(
    node: Server, topic: str, group: str, tmp_path: Path
) -> None:
    """Only the plan from a file is executed, since the node has groups of other tests, too."""
    busy, idle = f"{group}-busy", f"{group}-calm"
    reset(node, idle, "--to-offset", "4", "--topic", topic, "--execute")
    member = join(node, busy, topic)
    plan = tmp_path / "plan.csv"
    plan.write_text("".join(f"{one},{topic},0,2\n" for one in (busy, idle, f"{group}-nobody")))

    command = start(node.bootstrap, "group", "reset", "--all-groups", "--shift-by", "-1", "--topic", topic)
    shown, errors = command.communicate(timeout=TIMEOUT_S)
    done = ottla(node.bootstrap, "group", "reset", "--all", "--from-file", str(plan), "--execute", code=1)
    leave(member)

    assert [line.split()[-2:] for line in shown.splitlines() if line.startswith(idle)] == [["4", "3"]] * 2
    assert command.returncode == 1 and f"Group {busy} is active (Stable)" in errors
    assert f"Group {busy} is active (Stable)" in done
    assert offsets(node, idle) == [2, 4]
    assert f"{group}-nobody" not in ottla(node.bootstrap, "group", "list")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--to-earliest"], 2, "with either --topic or --all-topics"),
        (["--to-earliest", "--topic", "t", "--all-topics"], 2, "with either --topic or --all-topics"),
        (["--all-topics"], 2, "Give exactly one of --to-earliest"),
        (["--to-earliest", "--to-latest", "--all-topics"], 2, "Give exactly one of --to-earliest"),
        (["--to-datetime", "soon", "--all-topics"], 2, "is not a date"),
        (["--by-duration", "1h", "--all-topics"], 2, "is not a duration"),
        (["--to-earliest", "--topic", "t:x"], 2, "is not TOPIC or TOPIC:PARTITION"),
        (["--to-earliest", "--all-topics"], 1, "has no committed offsets"),
        (["--to-earliest", "--topic", "nowhere"], 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (["--from-file", "no/such/file"], 1, "cannot be read"),
        (["--from-file", "README.md"], 1, "Line 1 is not topic,partition,offset"),
    ],
)
def test_an_invalid_reset_is_rejected(node: Server, arguments: list[str], code: int, words: str) -> None:
    assert words in ottla(node.bootstrap, "group", "reset", "nobody", *arguments, code=code)


def test_lag_is_shown_in_records_and_in_seconds(node: Server, topic: str, group: str) -> None:
    where = node.bootstrap
    an_hour_ago = str(int(time.time() * 1000) - 3_600_000)
    old = f'{{"value":"old","partition":0,"timestamp":{an_hour_ago}}}\n'
    ottla(where, "produce", topic, "--input", "json", given=old + TEN_EACH)
    reset(node, group, "--to-offset", "10", "--topic", f"{topic}:0", "--execute")
    reset(node, group, "--to-latest", "--topic", f"{topic}:1", "--execute")

    [found] = json_of(node, "lag", group)
    one, other = found["partitions"]

    assert (one["committed"], one["end"], one["lag"]) == (10, 21, 11)
    assert 3600 <= one["seconds"] == found["seconds"] < 3600 + TIMEOUT_S
    assert (other["lag"], other["seconds"], found["lag"]) == (0, 0, 11)
    assert ottla(where, "group", "lag", group).startswith(f"group {group}  lag 11 records, 36")
    assert f"{group} lags by 11 records" in ottla(where, "group", "lag", group, "--max-lag", "10", code=1)
    assert " s, more than 60 s" in ottla(where, "group", "lag", group, "--max-seconds", "60", code=1)
    ottla(where, "group", "lag", group, "--max-lag", "11", "--max-seconds", "7200")
    assert json_of(node, "lag", group, "--topic", f"{topic}:1")[0]["lag"] == 0
    assert group in [one["group"] for one in json_of(node, "lag", "--all")]


def test_deleted_records_count_as_lag(node: Server, topic: str, group: str) -> None:
    reset(node, group, "--to-offset", "2", "--topic", f"{topic}:0", "--execute")
    delete_records(node, topic, 6)
    [before_start] = json_of(node, "lag", group)[0]["partitions"]
    delete_records(node, topic, 10)
    [nothing_left] = json_of(node, "lag", group)[0]["partitions"]

    assert before_start["lag"] == 8 and 0 < before_start["seconds"] < TIMEOUT_S
    assert (nothing_left["lag"], nothing_left["seconds"]) == (8, 0)


def delete_records(node: Server, topic: str, offset: int) -> None:
    partitions = [{"partition_index": 0, "offset": offset}]
    with WireClient(node.bootstrap) as client:
        answer = client.call(
            "delete_records", 2, topics=[{"name": topic, "partitions": partitions}], timeout_ms=10_000
        )
    assert answer.topics[0].partitions[0].error_code == 0


def test_lag_is_watched_until_it_is_too_much(node: Server, topic: str, group: str) -> None:
    reset(node, group, "--to-latest", "--topic", topic, "--execute")
    watching = start(node.bootstrap, "group", "lag", group, "--watch", "0.2", "--max-lag", "19")
    assert watching.stdout is not None
    assert watching.stdout.readline().startswith("at 20")
    assert watching.stdout.readline() == f"group {group}  lag 0 records, 0.0 s\n"

    ottla(node.bootstrap, "produce", topic, "--input", "json", given=TEN_EACH)
    _, err = watching.communicate(timeout=TIMEOUT_S)

    assert (watching.returncode, err) == (1, f"group {group} lags by 20 records, more than 19\n")


def test_an_assigned_partition_without_a_commit_has_no_lag(node: Server, group: str) -> None:
    name = f"empty-{uuid4().hex[:8]}"
    ottla(node.bootstrap, "topic", "create", name)
    member = join(node, group, name)

    [one] = json_of(node, "lag", group)[0]["partitions"]
    leave(member)

    assert (one["committed"], one["end"], one["lag"], one["seconds"]) == (None, 0, None, None)
