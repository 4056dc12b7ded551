"""The alternative paths of Confluent's API, in addition to the one in the table of routes.

Confluent's REST Proxy has the API at /v3, its Server and its cloud have it at /kafka/v3, and some clients
know only one of them. All accept a slash at the end. Links in an answer have the prefix of the request, since
a proxy in between may let only one of them through.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.node.rest_api.route import Route

API: Final = "/v3/"
CONFLUENT_SERVER: Final = "/kafka"


def spellings(routes: Sequence[Route]) -> Iterator[tuple[str, Route]]:
    """Yield each path to serve with its route; words come before parameters, so that `-` is not a name."""
    ordered = sorted(routes, key=lambda one: [word.startswith("{") for word in one.path.split("/")])
    yield from ((route.path, route) for route in ordered)
    of_the_api = [route for route in ordered if route.path.startswith(API)]
    # The methods of a path stay adjacent, so that the router makes one resource of them.
    for before, after in (("", "/"), (CONFLUENT_SERVER, ""), (CONFLUENT_SERVER, "/")):
        yield from ((before + route.path + after, route) for route in of_the_api)


def prefix_of(path: str) -> str:
    """Return the part of a request's path before /v3, which the links in its answer repeat."""
    return CONFLUENT_SERVER if path.startswith(CONFLUENT_SERVER + API) else ""
