"""The ways in which a path of Confluent's API may be written, beside the one in the table of routes.

Confluent's REST Proxy has the API at /v3, its Server and its cloud have it at /kafka/v3, and some clients
know one of them only. All take a slash at the end, too. Links in an answer begin as the request did: a proxy
in between may let one of them through.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.node.rest_api.route import Route

API: Final = "/v3/"
CONFLUENT_SERVER: Final = "/kafka"


def spellings(routes: Sequence[Route]) -> Iterator[tuple[str, Route]]:
    """Each path that is served, with its route; words before parameters: /topics/-/configs is no topic."""
    ordered = sorted(routes, key=lambda one: [word.startswith("{") for word in one.path.split("/")])
    yield from ((route.path, route) for route in ordered)
    of_the_api = [route for route in ordered if route.path.startswith(API)]
    # The methods of a path stay side by side, which the router makes one resource of.
    for before, after in (("", "/"), (CONFLUENT_SERVER, ""), (CONFLUENT_SERVER, "/")):
        yield from ((before + route.path + after, route) for route in of_the_api)


def prefix_of(path: str) -> str:
    """What a request's path has before /v3, which the links in its answer have as well."""
    return CONFLUENT_SERVER if path.startswith(CONFLUENT_SERVER + API) else ""
