"""The page of the REST API has all of its OpenAPI document, and loads no other files."""

import base64
import hashlib
import re
from html import unescape

from ottla.node.rest_api.all_routes import ALL_ROUTES
from ottla.node.rest_api.openapi import document
from ottla.node.rest_api.openapi_page import POLICY, page

DOCUMENT = document(ALL_ROUTES, version="1.2")
PAGE = page(DOCUMENT).decode()


def test_every_operation_parameter_field_and_schema_stands_there() -> None:
    shown = unescape(PAGE)
    operations = [
        (f"<code>{method.upper()} {path}</code> {one['summary']}", one)
        for path, methods in DOCUMENT["paths"].items()
        for method, one in methods.items()
    ]

    assert [head for head, _ in operations if head not in shown] == []
    for _, one in operations:
        part = shown.split(f' id="{one["operationId"]}">')[1].split("</details>")[0]
        assert one.get("description", "") in part
        for parameter in one.get("parameters", ()):
            assert f"<code>{parameter['name']}</code>" in part
        assert ("<p>Body" in part) is ("requestBody" in one)
        assert any(f"<code>{status}</code>" in part for status in one["responses"] if status < "3")
    for name, schema in DOCUMENT["components"]["schemas"].items():
        part = shown.split(f' id="schema-{name}">')[1].split("</details>")[0]
        assert [field for field in schema.get("properties", {}) if f"<code>{field}</code>" not in part] == []


def test_links_lead_to_one_place_of_the_page() -> None:
    places = re.findall(r' id="([^"]+)"', PAGE)

    assert len(places) == len(set(places))
    assert set(re.findall(r'href="#([^"]+)"', PAGE)) <= set(places)


def test_the_page_loads_nothing_and_its_policy_allows_its_style_alone() -> None:
    [style] = re.findall(r"<style>(.*?)</style>", PAGE)

    assert re.findall(r'(?:src|href)="(?!#|openapi\.json")[^"]*', PAGE) == []
    assert "<script" not in PAGE and "url(" not in style
    assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in POLICY


def test_the_texts_of_a_document_are_escaped() -> None:
    hostile = {
        **DOCUMENT,
        "info": {"title": "<script>", "version": "&", "description": "<b>"},
        "paths": {"/<a>": {"get": {**DOCUMENT["paths"]["/healthz"]["get"], "summary": '"><script>'}}},
    }

    shown = page(hostile).decode()

    assert "<script>" not in shown and "<a>" not in shown and "<b>" not in shown
