"""The files of the console as every node serves them."""

import re

import pytest

from tests.integration.rest.conftest import Api

pytestmark = pytest.mark.slow


def test_every_node_serves_the_console(apis: list[Api]) -> None:
    for node_id, api in enumerate(apis):
        page = api.ask("GET", "/")

        assert page.status == 200 and page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert page.headers["Content-Security-Policy"].startswith("default-src 'self';")
        assert "unsafe" not in page.headers["Content-Security-Policy"]
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        assert api.get("/console/node")["node_id"] == node_id


def test_all_files_of_the_page_exist(api: Api) -> None:
    named = re.findall(r'(?:src|href)="(/console/[^"]+)"', api.ask("GET", "/").content.decode())

    assert len(named) == 4
    for path in named:
        reply = api.ask("GET", path)
        assert reply.status == 200 and reply.content


def test_a_file_in_the_cache_of_a_browser_is_not_sent_again(api: Api) -> None:
    first = api.ask("GET", "/console/js/main.js")
    same = api.ask("GET", "/console/js/main.js", headers={"If-None-Match": first.headers["ETag"]})
    other = api.ask("GET", "/console/js/main.js", headers={"If-None-Match": '"old"'})

    assert first.headers["Cache-Control"] == "no-cache"
    assert (same.status, same.content) == (304, b"") and same.headers["ETag"] == first.headers["ETag"]
    assert (other.status, other.content) == (200, first.content)


@pytest.mark.parametrize("path", ["/console/", "/console/nothing.js", "/console/../route.py", "/console/js"])
def test_nothing_else_is_served(api: Api, path: str) -> None:
    assert api.ask("GET", path).status == 404


def test_the_openapi_document_is_a_page_too(api: Api) -> None:
    reply = api.ask("GET", "/openapi.html")

    assert reply.status == 200 and reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert b"<code>GET /v3/clusters</code>" in reply.content
