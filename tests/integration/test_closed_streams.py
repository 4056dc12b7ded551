"""Commands whose standard streams are closed or lead to a full disk, each in a new Python, as for a user."""

import subprocess
import sys
from fcntl import F_SETPIPE_SZ, fcntl
from pathlib import Path

import pytest

from tests.compat.servers import ROOT, Server
from tests.compat.wire_client import WireClient

pytestmark = pytest.mark.slow
TIMEOUT_S = 60


def shell(redirected: str, *arguments: str) -> "subprocess.Popen[str]":
    """Start `ottla` with its streams redirected by a shell."""
    return subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-m", "ottla", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(redirected: str, *arguments: str) -> tuple[int, str, str]:
    """Run a command and return its exit code, its output and its errors."""
    process = shell(redirected, *arguments)
    out, errors = process.communicate("a line\n", timeout=TIMEOUT_S)
    return process.returncode, out, errors


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_socket_takes_the_place_of_a_closed_stream(node: Server, closed: str) -> None:
    run("", "produce", "listed", "--create-topic", "--bootstrap", node.bootstrap)

    code, out, errors = run(closed, "topic", "list", "--bootstrap", node.bootstrap)

    assert (code, errors) == (0, "")
    assert ("listed" in out) is (closed in ("<&-", "2>&-")), "an open output has the list"


def test_produce_without_an_input_sends_nothing(node: Server) -> None:
    given = ("no-input", "--create-topic", "--bootstrap", node.bootstrap)
    assert run("<&-", "produce", *given) == (0, "", "")


def test_an_input_that_cannot_be_read_is_an_error(node: Server) -> None:
    given = ("bad-input", "--create-topic", "--bootstrap", node.bootstrap)
    code, _, errors = run("0>/dev/null", "produce", *given)

    assert code == 1
    assert errors.startswith(
        "ottla: Line 1 of standard input cannot be read: Bad file descriptor. 0 records before it"
    )


def test_a_node_without_an_input_stops_on_sigterm(tmp_path: Path) -> None:
    listeners = ("listeners=PLAINTEXT://127.0.0.1:0", "ottla.rest.listeners=")
    overrides = [word for setting in listeners for word in ("--override", setting)]
    process = shell("<&-", "start", "--data", str(tmp_path), *overrides)
    assert process.stdout is not None
    ready = process.stdout.readline()

    process.terminate()
    _, errors = process.communicate(timeout=TIMEOUT_S)

    assert ready.startswith("READY ") and "Assertion" not in errors
    assert process.returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["topic", "list"], ["consume", "full-disk", "--until-end"], ["log", "dump", "--records"]],
    ids=" ".join,
)
def test_a_full_disk_at_the_output_is_reported_in_one_sentence(node: Server, arguments: list[str]) -> None:
    run("", "produce", "full-disk", "--create-topic", "--bootstrap", node.bootstrap)
    program = "ottla"
    if arguments[0] == "log":
        program = "ottla log dump"
        arguments = [*arguments, *map(str, node.data.rglob("full-disk-0"))]
    elif arguments[0] != "--help":
        arguments = [*arguments, "--bootstrap", node.bootstrap]

    code, _, errors = run(">/dev/full", *arguments)

    assert (code, errors) == (1, f"{program}: The output cannot be written: No space left on device.\n")


def test_a_node_whose_log_is_not_read_keeps_serving_and_stops(tmp_path: Path) -> None:
    settings = (
        "listeners=PLAINTEXT://127.0.0.1:0",
        "ottla.rest.listeners=",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found=true",
    )
    overrides = [word for setting in settings for word in ("--override", setting)]
    with shell("", "start", "--data", str(tmp_path), *overrides) as process:
        assert process.stdout is not None and process.stderr is not None
        fcntl(process.stderr.fileno(), F_SETPIPE_SZ, 4_096)
        try:
            bootstrap = process.stdout.readline().split("bootstrap=")[1].split()[0]
            with WireClient(bootstrap) as client:
                for number in range(100):
                    audited_change(client, number)
            process.terminate()

            assert process.wait(TIMEOUT_S) == 0
            assert len(process.stderr.read()) >= 2_048, "the pipe was full"
        finally:
            process.kill()


def audited_change(client: WireClient, number: int) -> None:
    """Make a change that is a line of the audit log."""
    entry = {
        "resource_type": 2,  # TOPIC
        "resource_name": f"topic-{number}",
        "resource_pattern_type": 3,  # LITERAL
        "principal": "User:somebody",
        "host": "*",
        "operation": 3,  # READ
        "permission_type": 3,  # ALLOW
    }
    assert not client.call("create_acls", 3, creations=[entry]).results[0].error_code
