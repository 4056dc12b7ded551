"""The OpenAPI document as an HTML page: every operation with its parameters, its body and its answers.

The page loads no other files and runs no scripts. A node serves it at /openapi.html, and the documentation's
site has the same sections.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from ottla.node.rest_api.json_schema import Json, Schema

ERRORS: Final = "Errors"  # the section of responses that most operations have
SCHEMAS: Final = "Schemas"  # the last section: parts of bodies that several operations use
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}"
    "code{font-family:ui-monospace,monospace;font-size:.9em;overflow-wrap:anywhere}"
    "summary{cursor:pointer;margin:.3rem 0}table{border-collapse:collapse;width:100%}"
    "td,th{border-top:1px solid #8886;padding:.2rem .6rem;text-align:left;vertical-align:top}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}a{color:#8bf}}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_ERROR: Final = {"$ref": "#/components/schemas/Error"}
_BOUNDS: Final = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "characters at least:",
    "maxLength": "characters at most:",
    "minItems": "entries at least:",
    "maxItems": "entries at most:",
    "default": "default:",
}


def page(document: Schema) -> bytes:
    """Return the page."""
    title = f"{escape(document['info']['title'])} REST API {escape(document['info']['version'])}"
    parts = list(sections(document))
    links = " · ".join(f'<a href="#{_anchor("tag", tag)}">{escape(tag)}</a>' for tag, _ in parts)
    body = "".join(f'<h2 id="{_anchor("tag", tag)}">{escape(tag)}</h2>{html}' for tag, html in parts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>{title}</h1><p>{escape(document['info']['description'])} "
        f'<a href="openapi.json">openapi.json</a> has the same for programs.</p><p>{links}</p>{body}'
        "</body></html>"
    ).encode()


def sections(document: Schema) -> Iterator[tuple[str, str]]:
    """Yield each tag with the HTML of its operations; then the usual errors, and the schemas."""
    operations = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    usual = _usual_errors([operation for _, _, operation in operations])
    for tag in (one["name"] for one in document["tags"]):
        mine = [one for one in operations if tag in one[2]["tags"]]
        yield tag, "".join(_operation(method, path, operation, usual) for method, path, operation in mine)
    rows = [(f"<code>{status}</code>", escape(meaning)) for status, meaning in sorted(usual.items())]
    yield ERRORS, f"<p>Their body is {_type(_ERROR)}.</p>{_table(('answer', 'meaning'), rows)}"
    schemas = document["components"]["schemas"].items()
    yield (
        SCHEMAS,
        "".join(
            f"<details><summary><code>{escape(name)}</code></summary>"
            f'<p id="{_anchor("schema", name)}">{_type(schema)}'
            f" {_meaning({'schema': schema, 'required': True})}</p>"
            f"{_table(('field', 'type', 'meaning'), _fields(schema))}</details>"
            for name, schema in schemas
        ),
    )


def _usual_errors(operations: Sequence[Schema]) -> Mapping[str, str]:
    """Return the most frequent description of each error status."""
    counted: dict[str, Counter[str]] = {}
    for one in operations:
        for status, answer in one["responses"].items():
            if int(status) >= 400:
                counted.setdefault(status, Counter())[answer["description"]] += 1
    return {status: meanings.most_common(1)[0][0] for status, meanings in counted.items()}


def _operation(method: str, path: str, operation: Schema, usual: Mapping[str, str]) -> str:
    parameters = [
        (f"<code>{escape(one['name'])}</code>", _type(one["schema"]), _meaning(one), one["in"])
        for one in operation.get("parameters", ())
    ]
    # Following a link to an element within a closed part of the page opens that part.
    parts = [f'<p id="{escape(operation["operationId"])}">{escape(operation.get("description", ""))}</p>']
    if parameters:
        parts.append(_table(("parameter", "type", "meaning", "in"), parameters))
    if "requestBody" in operation:
        body = operation["requestBody"]
        [schema] = {str(one["schema"]): one["schema"] for one in body["content"].values()}.values()
        needed = "Body" if body["required"] else "Body, which may be absent"
        parts.append(f"<p>{needed}: {_type(schema)} {_kinds(body)}</p>")
        parts.append(_table(("field", "type", "meaning"), _fields(schema)))
    answers = [
        (f"<code>{status}</code>", _content(answer), escape(answer["description"]))
        for status, answer in operation["responses"].items()
        if usual.get(status) != answer["description"]
    ]
    parts.append(_table(("answer", "body", "meaning"), answers))
    return (
        f"<details><summary><code>{method.upper()} {escape(path)}</code> "
        f"{escape(operation['summary'])}</summary>{''.join(parts)}</details>"
    )


def _content(answer: Schema) -> str:
    shown = {_type(one["schema"]) for one in answer.get("content", {}).values()}
    return f"{' or '.join(sorted(shown))} {_kinds(answer)}" if shown else "none"


def _kinds(answer: Schema) -> str:
    kinds = [one for one in answer.get("content", {}) if one != "application/json"]
    return ", ".join(f"<code>{escape(one)}</code>" for one in kinds)


def _fields(schema: Schema, before: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield a row for each field; nested fields have their full path as a name."""
    for name, one in schema.get("properties", {}).items():
        whole = f"{before}{name}"
        is_required = name in schema.get("required", ())
        yield f"<code>{escape(whole)}</code>", _type(one), _meaning({"schema": one, "required": is_required})
        inner = one.get("items", one)
        yield from _fields(inner, f"{whole}[]." if "items" in one else f"{whole}.")


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{_anchor("schema", name)}">{escape(name)}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"<code>{escape(str(one))}</code>" for one in schema["enum"])
    names = schema.get("type", "any value")
    words = [names] if isinstance(names, str) else names
    text = " or ".join(map(escape, words))
    return f"{text} of {_type(schema['items'])}" if "items" in schema else text


def _meaning(one: Schema) -> str:
    """Return the description of a parameter or field, with "required" and its bounds."""
    schema = one["schema"]
    words = one.get("description") or schema.get("description") or ""
    bounds = [f"{text} {_shown(schema[name])}" for name, text in _BOUNDS.items() if name in schema]
    if "pattern" in schema:
        bounds.append(f"matches {schema['pattern']}")
    details = ", ".join(bounds if one.get("required") else ["optional", *bounds])
    return escape(f"{words} ({details})" if words and details else words or details)


def _shown(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table(head: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{one}</th>' for one in head)}</tr>{lines}</table>" if lines else ""


def _anchor(kind: str, name: str) -> str:
    return f"{kind}-{''.join(one if one.isalnum() else '-' for one in name)}"
