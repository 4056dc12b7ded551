"""`ottla group`: its arguments, the lag from batches, and its output."""

import json

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli import group_commands, group_tables
from ottla.node.cli.failure import EXIT_USAGE, CommandError
from ottla.node.client import group_as_json, group_lag, group_reset
from ottla.node.client.group_admin import (
    ConsumerMemberView,
    GroupMemberView,
    GroupView,
    ListedGroup,
    RebalanceEvent,
    RebalanceView,
)
from ottla.node.client.group_lag import Oldest, PartitionLag

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_states_and_types_are_accepted_in_any_case() -> None:
    states, noun = group_commands.STATES, "group state"
    assert group_commands.parse_words("stable, EMPTY", states, noun) == ["Stable", "Empty"]
    assert group_commands.parse_words(None, group_commands.TYPES, "type of a group") == []
    with pytest.raises(CommandError, match="Unknown group state 'calm'; use Stable, ") as refused:
        group_commands.parse_words("stable,calm", states, noun)
    assert refused.value.exit_code == EXIT_USAGE


def test_topics_named_twice_are_joined() -> None:
    assert group_commands.parse_topics(["a:1", "a:0,1", "b", "b:3"]) == {"a": [0, 1], "b": None}
    with pytest.raises(CommandError, match="'a:' is not TOPIC"):
        group_commands.parse_topics(["a:"])


def test_a_time_before_1970_is_not_taken_for_a_special_value() -> None:
    assert group_reset.at_time(-1).timestamp_ms == 0
    assert group_reset.before_now(10**18).timestamp_ms == 0


def test_a_time_beyond_all_timestamps_is_the_last_one() -> None:
    assert group_reset.before_now(-(2**63)).timestamp_ms == 2**63 - 1


# ---- lag -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lag", "oldest", "records", "age_ms"),
    [
        (PartitionLag(None, 10), None, None, None),  # nothing committed
        (PartitionLag(5, None), None, None, None),  # no leader
        (PartitionLag(10, 10), None, 0, 0),
        (PartitionLag(12, 10), None, 0, 0),  # the log was cut after an unclean election
        (PartitionLag(5, 10), Oldest(5, 600), 5, 400),
        (PartitionLag(5, 10), Oldest(7, 600), 5, 400),  # a compacted gap
        (PartitionLag(5, 10), Oldest(5, 5000), 5, 0),  # a producer's clock that is ahead
        (PartitionLag(5, 10), Oldest(5, -1), 5, None),  # a producer that writes no timestamps
        (PartitionLag(9, 10), Oldest(10), 1, 0),  # only a marker is left
        (PartitionLag(5, 10), None, 5, None),  # the leader was gone before the record was read
    ],
)
def test_lag_is_computed_in_records_and_in_time(
    lag: PartitionLag, oldest: Oldest | None, records: int | None, age_ms: int | None
) -> None:
    assert (lag.records, group_lag.age_ms(lag, oldest, 1000)) == (records, age_ms)


# ---- tables --------------------------------------------------------------------------------------

ANNA = GroupMemberView("anna-1", None, "anna", "10.0.0.1", [A0, A1, B0])
VIEW = GroupView("g", "classic", "Stable", "consumer", "range", None, "h:9092", [ANNA])
LAGS = {A0: PartitionLag(5, 8, 1500), A1: PartitionLag(8, 8, 0), B0: PartitionLag(None, 3)}


def test_a_group_is_printed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    group_tables.print_group(VIEW, LAGS)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "group g  classic  Stable  assignor range  1 member  coordinator h:9092"
    assert [line.split() for line in lines[2:]] == [
        ["a", "0", "5", "8", "3", "anna-1"],
        ["a", "1", "8", "8", "0", "anna-1"],
        ["b", "0", "-", "3", "-", "anna-1"],
    ]


def test_a_group_is_returned_as_json() -> None:
    group = json.loads(json.dumps(group_tables.group_as_json(VIEW._replace(epoch=7), LAGS)))

    assert (group["group"], group["state"], group["epoch"], group["assignor"]) == ("g", "Stable", 7, "range")
    assert [one["lag"] for one in group["partitions"]] == [3, 0, None]
    assert group["members"][0]["partitions"][2] == {"topic": "b", "partition": 0}


def test_lag_is_printed_as_a_table_and_returned_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    group_tables.print_lag("g", LAGS)
    document = group_tables.lag_as_json("g", LAGS)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "group g  lag 3 records, 1.5 s"
    assert [line.split()[-2:] for line in lines[2:]] == [["3", "1.5"], ["0", "0.0"], ["-", "-"]]
    assert (document["lag"], document["seconds"]) == (3, 1.5)
    assert [one["seconds"] for one in document["partitions"]] == [1.5, 0.0, None]


JOINED = RebalanceEvent("MemberJoined", 1_000, "anna-1", "anna", "first start")
REBALANCES = [
    RebalanceView(1_000, 4_500, 0, 1, 2, [JOINED, JOINED._replace(member_id="bert-1", reason="")], 7),
    RebalanceView(5_000, None, 1, None, None, [RebalanceEvent("GroupTooLarge", 5_000, "", "", "")], 0),
]


def test_a_timeline_is_printed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    group_tables.print_timeline(VIEW._replace(rebalances=REBALANCES))
    group_tables.print_timeline(VIEW._replace(rebalances=[]))
    group_tables.print_timeline(VIEW)

    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:1]] == [["began", "seconds", "generation", "members", "why"]]
    assert lines[1].split("  ")[0] == "1970-01-01T00:00:01.000Z"
    assert lines[1].endswith(
        "0 -> 1      2        MemberJoined anna-1 (first start); MemberJoined bert-1; 7 more"
    )
    assert lines[2].split() == ["1970-01-01T00:00:05.000Z", "-", "1", "->", "?", "-", "GroupTooLarge"]
    assert lines[3] == "There was no rebalance since the current coordinator took over the group."
    assert lines[4] == "This server does not record the rebalances of its groups."


def test_a_timeline_is_returned_as_json() -> None:
    ended, running = group_as_json.timeline_as_json(VIEW._replace(rebalances=REBALANCES)) or []

    assert (ended["duration_ms"], ended["generation_after"], ended["events_left_out"]) == (3_500, 1, 7)
    assert ended["events"][0] == {
        "cause": "MemberJoined",
        "at_ms": 1_000,
        "member": "anna-1",
        "client": "anna",
        "reason": "first start",
    }
    assert (running["duration_ms"], running["members"], running["events"][0]["member"]) == (None, None, None)
    assert group_as_json.timeline_as_json(VIEW) is None


def test_a_group_that_committed_nothing_has_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    group_tables.print_lag("g", {})
    group_tables.print_members(VIEW._replace(members=[]), verbose=True)
    group_tables.print_groups([])

    assert capsys.readouterr().out == "group g  lag 0 records, - s\n"


def test_members_are_printed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    worker = GroupMemberView("w-1", "static", "worker", "10.0.0.2", None)
    group_tables.print_members(VIEW._replace(members=[ANNA, worker]), verbose=True)

    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1] == ["anna-1", "-", "anna", "10.0.0.1", "3", "a:0,1", "b:0"]
    assert rows[2] == ["w-1", "static", "worker", "10.0.0.2", "-", "-"]


def test_members_of_a_consumer_group_have_epochs_and_targets(capsys: pytest.CaptureFixture[str]) -> None:
    anna = ANNA._replace(consumer=ConsumerMemberView("consumer", 6, [A0, B0], ["a", "b"], "b.*"))
    classic = GroupMemberView(
        "c-1", None, "c", "10.0.0.2", [], ConsumerMemberView("classic", 7, [A1], ["a"], None)
    )
    view = VIEW._replace(group_type="consumer", epoch=8, target_epoch=7, members=[anna, classic])
    group_tables.print_group(view, {})
    group_tables.print_members(view, verbose=True)
    group = json.loads(json.dumps(group_tables.group_as_json(view, {})))

    head, _, *rows = capsys.readouterr().out.splitlines()
    assert "epoch 8 (assigned 7)" in head
    assert rows[0].split()[4:] == ["3", "consumer", "6", "a:0,1", "b:0", "a:0", "b:0"]
    assert rows[1].split()[4:] == ["0", "classic", "7", "-", "a:1"]
    assert (group["epoch"], group["target_epoch"]) == (8, 7)
    assert [one["epoch"] for one in group["members"]] == [6, 7]
    assert group["members"][0]["expression"] == "b.*"
    assert group["members"][1]["target"] == [{"topic": "a", "partition": 1}]
    assert "epoch" not in group_tables.members_as_json(VIEW)[0]


def test_groups_of_an_old_server_have_gaps(capsys: pytest.CaptureFixture[str]) -> None:
    group_tables.print_groups([ListedGroup("g", "", "", "consumer", 3)])

    assert capsys.readouterr().out.splitlines()[1].split() == ["g", "-", "-", "consumer", "3"]


def test_names_that_clients_chose_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = GroupMemberView("m\x1b]0;mine\x07", None, "a\nb-1  -  b  10.0.0.9  0", "10.0.0.3", [A0])
    view = VIEW._replace(group_id="g\x1b[2J", members=[evil])

    group_tables.print_group(view, LAGS)
    group_tables.print_members(view, verbose=False)
    group_tables.print_lag(view.group_id, {})
    group_tables.print_groups([ListedGroup("grün 語\r", "classic", "Empty", "consumer", 3)])

    lines = capsys.readouterr().out.splitlines()
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 1 + 4 + 2 + 1 + 2
    assert lines[0].startswith("group g\\x1b[2J  classic")
    assert lines[-1].startswith("grün 語\\r ")
