"""No request of a command or of the REST API has a fixed timeout: each has the time left to its deadline."""

import ast
from collections.abc import Iterator

from tests.tidy.test_layers import ROOT

FOLDERS = ("node/client", "node/cli", "node/rest_api")
# JoinGroup is answered once the other members have joined, too, so it gets their time besides ours.
OF_OTHERS = {("node/client/group_member.py", "patience_s")}
# It sends HTTP, and its session has the time limits.
OVER_HTTP = {("node/cli/rest_command.py", "the default")}


def times_of_requests() -> Iterator[tuple[str, str]]:
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
    found = set(times_of_requests())
    own = {one for one in found if not one[1].endswith(".remaining_s")}

    assert len(found) > 10 and own == OF_OTHERS | OVER_HTTP
