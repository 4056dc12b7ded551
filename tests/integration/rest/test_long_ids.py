"""Ids in paths that exceed the limit of ids: each route rejects them before it asks the cluster."""

import re
from typing import Final

import pytest

from ottla.node.rest_api.all_routes import ALL_ROUTES
from ottla.node.rest_api.route import Route
from tests.integration.rest.conftest import Api

pytestmark = pytest.mark.slow
LONGEST: Final = 1_024
# Groups and transactions with longer ids may exist from before there was a limit: they can be shown and
# deleted, so their ids are accepted in these paths.
MAY_BE_OLD: Final = ("group_id", "consumer_group_id", "transactional_id")
CASES: Final = [
    pytest.param(route, name, id=f"{route.operation_id}-{name}")
    for route in ALL_ROUTES
    for name in re.findall(r"{(\w+)}", route.path)
    if route.schema_of(name).get("type") != "integer"
]


def path_of(api: Api, route: Route, name: str, text: str) -> str:
    """Return the path of a route with a text for one parameter, and short ones for the others."""
    others = {"cluster_id": api.cluster_id, name: text}
    return re.sub(r"{(\w+)}", lambda found: others.get(found[1], "1"), route.path)


@pytest.mark.parametrize(("route", "name"), CASES)
@pytest.mark.parametrize("length", [LONGEST + 1, 6_000])
def test_a_path_with_a_very_long_id_is_rejected(api: Api, route: Route, name: str, length: int) -> None:
    reply = api.ask(route.method, path_of(api, route, name, "a" * length), content=b"{}")

    if name in MAY_BE_OLD:
        assert 400 <= reply.status < 500
        assert len(reply.content) < 2 * length + 1_000
        return
    assert reply.status == 400, reply.content[:300]
    assert reply.json["message"] == f"{name} in the path has more than {LONGEST} bytes."


@pytest.mark.parametrize("text", ["é" * (LONGEST // 2 + 1), "%F0%9F%A6%A6" * (LONGEST // 4 + 1)])
def test_the_limit_counts_bytes(api: Api, text: str) -> None:
    quoted = text.replace("é", "%C3%A9")

    reply = api.ask("GET", f"/v3/clusters/{api.cluster_id}/topics/{quoted}")

    assert reply.status == 400
    assert "has more than" in reply.json["message"]


def test_the_longest_id_is_accepted(api: Api) -> None:
    reply = api.ask("GET", f"/v3/clusters/{'a' * LONGEST}")

    assert reply.status == 404
