"""The commands for quorums, brokers and replicas: their arguments and their output."""

import json
import shutil
from pathlib import Path

import pytest

from ottla.logstore.disk import OsDisk
from ottla.logstore.volume import DirectoryLock
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from ottla.node.cli import quorum_commands, reassign_commands
from ottla.node.cli.failure import EXIT_USAGE, CommandError
from ottla.node.client.cluster_admin import ListenerAddress
from ottla.node.client.cluster_client import Client
from ottla.node.client.quorum_admin import QuorumMember, QuorumView

NOW_MS = 1_700_000_000_000
DIRECTORY = bytes(range(16))


def member(
    node_id: int, *, votes: bool = True, directory_id: bytes = DIRECTORY, end: int = 7
) -> QuorumMember:
    return QuorumMember(node_id, votes, directory_id, end, NOW_MS, NOW_MS)


VIEW = QuorumView(
    1,
    4,
    7,
    [member(0, end=5), member(1), member(2, directory_id=ZERO_UUID, end=-1), member(3, votes=False)],
    {0: [ListenerAddress("CONTROLLER", "a", 9093)]},
)


def test_moves_name_all_partitions_or_one() -> None:
    moves = reassign_commands.parse_moves(["0,1,2", "3:2,1", "0:4"])

    assert moves == {reassign_commands.EVERY_PARTITION: [0, 1, 2], 3: [2, 1], 0: [4]}


@pytest.mark.parametrize("texts", [["a"], ["1,"], [""], ["x:1"], [":1"], ["-1:2"], ["1:2", "1:3"], ["1:2:3"]])
def test_an_invalid_move_is_wrong_usage(texts: list[str]) -> None:
    with pytest.raises(CommandError) as refused:
        reassign_commands.parse_moves(texts)

    assert refused.value.exit_code == EXIT_USAGE


def test_an_endpoint_is_one_address_with_a_port() -> None:
    assert quorum_commands.parse_endpoint("[::1]:9093") == ("::1", 9093)
    for text in ("host", "a:1,b:2", "a:b", ""):
        with pytest.raises(CommandError):
            quorum_commands.parse_endpoint(text)


def test_a_directory_id_has_22_letters() -> None:
    assert quorum_commands.parse_directory_id("AAECAwQFBgcICQoLDA0ODw") == DIRECTORY
    with pytest.raises(CommandError, match="22 characters"):
        quorum_commands.parse_directory_id("AAEC")


def test_the_state_of_a_quorum_is_printed_as_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show(monkeypatch, as_json=False)

    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines]
    assert lines[0] == "leader 1  epoch 4  high watermark 7"
    assert [row[:4] for row in rows[2:]] == [
        ["0", "voter", "5", "2"],
        ["1", "leader", "7", "0"],
        ["2", "voter", "-", "-"],
        ["3", "observer", "7", "0"],
    ]
    assert rows[2][-1] == "a:9093" and rows[4][-2:] == ["-", "-"]


def test_the_state_of_a_quorum_is_printed_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show(monkeypatch, as_json=True)

    quorum = json.loads(capsys.readouterr().out)
    assert (quorum["leader"], quorum["leader_epoch"], quorum["high_watermark"]) == (1, 4, 7)
    assert [one["node"] for one in quorum["voters"]] == [0, 1, 2]
    assert [one["node"] for one in quorum["observers"]] == [3]
    assert quorum["voters"][2]["directory_id"] is None and quorum["voters"][2]["log_end_offset"] is None
    assert quorum["voters"][0]["listeners"] == [{"name": "CONTROLLER", "host": "a", "port": 9093}]


def test_voters_without_a_vote_are_distinguished_from_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, copied = member(0)._replace(is_disk_old=True), member(2)._replace(is_disk_copied=True)
    view = VIEW._replace(members=[old, member(1), copied])

    show(monkeypatch, as_json=False, view=view)
    rows = capsys.readouterr().out.splitlines()[2:]
    show(monkeypatch, as_json=True, view=view)
    voters = json.loads(capsys.readouterr().out)["voters"]

    assert "voter, cannot vote yet: old disk" in rows[0] and "voter, cannot vote yet: copied disk" in rows[2]
    assert [one["is_disk_old"] for one in voters] == [True, False, False]
    assert [one["is_disk_copied"] for one in voters] == [False, False, True]


# ---- copied directories ----------------------------------------------------------------------------------


def voter_directory(path: Path) -> Path:
    """Return a data directory with the state of a voter that voted for node 2 in term 7."""
    metadata = path / "__cluster_metadata-0"
    metadata.mkdir(parents=True)
    write_quorum_state(OsDisk(), metadata, QuorumState(7, 2))
    return path


def moved_from(home: Path) -> Path:
    """Return a copy of a directory; copy again until the clock of the files shows that it is later."""
    moved = home.with_name("moved")
    while not moved.exists() or (state_in(moved) or QuorumState(0, 0)).copied_from is None:
        shutil.rmtree(moved, ignore_errors=True)
        shutil.copytree(home, moved)
    return moved


def state_in(path: Path) -> QuorumState | None:
    return read_quorum_state(OsDisk(), path / "__cluster_metadata-0")


def test_a_copied_directory_is_trusted_after_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = voter_directory(tmp_path / "home")
    moved = moved_from(home)
    before = state_in(moved)

    first, second = (
        quorum_commands.trust_copy(moved, as_json=False),
        quorum_commands.trust_copy(moved, as_json=False),
    )

    assert before is not None and before.copied_from is not None and state_in(home) == QuorumState(7, 2)
    assert (first, second, state_in(moved)) == (0, 0, QuorumState(7, 2))
    assert capsys.readouterr().out.splitlines() == [
        f"{moved} is trusted now; start its node.",
        f"{moved} is not a copy: its voter can vote already.",
    ]


def test_a_directory_that_a_node_uses_or_that_holds_no_metadata_is_not_trusted(tmp_path: Path) -> None:
    moved = moved_from(voter_directory(tmp_path / "home"))
    lock = DirectoryLock(moved)

    with pytest.raises(KafkaError, match="in use by process"):
        quorum_commands.trust_copy(moved, as_json=False)
    with pytest.raises(CommandError, match="holds no metadata log"):
        quorum_commands.trust_copy(tmp_path, as_json=False)

    lock.release()
    state = state_in(moved)
    assert state is not None and state.copied_from is not None


def show(monkeypatch: pytest.MonkeyPatch, *, as_json: bool, view: QuorumView = VIEW) -> None:
    """Run `ottla quorum status` with `view` as the response."""
    import asyncio

    async def describe(client: Client, *, accepts_old: bool) -> QuorumView:
        assert accepts_old, "a node that is cut off may return the quorum that it last knew"
        return view

    monkeypatch.setattr(quorum_commands, "describe_quorum", describe)
    client = Client([("localhost", 1)], timeout_s=1)
    assert asyncio.run(quorum_commands.status(client, as_json)) == 0
