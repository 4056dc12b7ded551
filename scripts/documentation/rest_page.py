"""The reference of the REST API, from its OpenAPI document."""

from ottla.node.net.peer_client import SOFTWARE_VERSION
from ottla.node.rest_api.all_routes import ALL_ROUTES
from ottla.node.rest_api.openapi import document
from ottla.node.rest_api.openapi_page import sections

HEAD = """# REST reference

Generated from the OpenAPI document of this version, which every node serves at `/openapi.json`, and as a page
at `/openapi.html`. [REST API](../rest.md) explains it with examples.

"""


def rest_page() -> str:
    """Return the page."""
    found = sections(document(ALL_ROUTES, version=SOFTWARE_VERSION))
    return HEAD + "".join(f"## {tag}\n\n{html}\n\n" for tag, html in found)
