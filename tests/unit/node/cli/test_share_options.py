"""The options of `ottla consume` that can be used with --share, and those that cannot."""

import pytest
from typer.testing import CliRunner

from ottla.node.cli.app import app
from ottla.node.cli.failure import EXIT_USAGE, CommandError

# Nothing listens there: the options must be rejected before a request is sent.
UNREACHABLE = ("-b", "127.0.0.1:1", "--timeout", "1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--share", "g", "--group", "h"], "--group cannot be used with --share"),
        (["--share", "g", "--partition", "0"], "--partition cannot be used with --share"),
        (["--share", "g", "--from", "end"], "--from cannot be used with --share"),
        (["--share", "g", "--until-end"], "--until-end cannot be used with --share"),
        (["--share", "g", "--isolation", "read_committed"], "--isolation cannot be used with --share"),
        (["--share", ""], "must not be empty"),
        (["--share", "g", "--exec", "true", "--acknowledge", "accept"], "the exit code acknowledges"),
        (["--share", "g", "--exec", "no-such-program-anywhere"], "no executable program"),
        (["--exec", "true"], "--exec needs --share"),
        (["--reject-exit-code", "3"], "--reject-exit-code needs --share"),
        (["--share", "g", "--reject-exit-code", "3"], "--reject-exit-code needs --exec"),
        (["--acknowledge", "accept"], "--acknowledge needs --share"),
        (["--idle-timeout", "1"], "--idle-timeout needs --share"),
        (["--deliveries"], "--deliveries needs --share"),
        (["-f", "%y"], "%y is not a field"),
    ],
)
def test_options_that_do_not_go_together_are_rejected(options: list[str], words: str) -> None:
    error = CliRunner().invoke(app, ["consume", "orders", *options, *UNREACHABLE]).exception

    assert isinstance(error, CommandError)
    assert (words in str(error), error.exit_code) == (True, EXIT_USAGE)
