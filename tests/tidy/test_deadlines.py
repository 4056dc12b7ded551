"""No request of a command or of the REST API has a fixed timeout: each has the time left to its deadline."""

import ast
from collections.abc import Iterator

from tests.tidy.test_layers import ROOT

FOLDERS = ("node/client", "node/cli", "node/rest_api")
# JoinGroup is answered when the other members have joined, so its timeout includes the time that they have.
WAITS_FOR_OTHERS = {("node/client/group_member.py", "rebalance_limit_s")}
# It sends HTTP; the timeouts are those of its session.
OVER_HTTP = {("node/cli/rest_command.py", "the default")}


def timeouts_of_requests() -> Iterator[tuple[str, str]]:
    """Yield the module and the timeout argument of each request over the Kafka protocol."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("*.py")):
            for call in ast.walk(ast.parse(path.read_text())):
                if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                    continue
                if call.func.attr == "request" and call.args:
                    given = {one.arg: ast.unparse(one.value) for one in call.keywords}
                    yield str(path.relative_to(ROOT)), given.get("timeout_s", "the default")


def test_a_request_has_the_time_left_to_its_deadline() -> None:
    found = set(timeouts_of_requests())
    fixed = {one for one in found if not one[1].endswith(".remaining_s")}

    assert len(found) > 10 and fixed == WAITS_FOR_OTHERS | OVER_HTTP
