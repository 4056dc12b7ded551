"""Formats the lines of the audit log: text for the logger, JSON for the file.

The text of a decision is that of Kafka's StandardAuthorizer, so programs that read kafka-authorizer.log read
ours. Clients choose names, so text escapes characters that are not printable, and the file every character
beyond ASCII.
"""

import json
from datetime import UTC, datetime
from typing import Final

from ottla.node.audit.audit_event import AccessDecision, Change, FailedLogin
from ottla.node.audit.repeated_events import LeftOutLine, Line

LOST: Final = "lost"  # the kind of a line that counts lines missing from the file


def escaped(text: str) -> str:
    """Return a text with control characters and line breaks escaped."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        one if one.isprintable() and one != "\\" else one.encode("unicode_escape").decode() for one in text
    )


def text_of(line: Line) -> str:
    """Return the line as text for the logger."""
    if isinstance(line, LeftOutLine):
        principal, address = line.source
        by = f" by principal = {escaped(principal)}" if principal else ""
        where = f" from host = {escaped(address)}" if address else " from several hosts"
        return f"{line.events} more events of kind = {line.kind}{by}{where} are left out"
    event, times = line.event, "" if line.events == 1 else f" ({line.events} times)"
    match event:
        case AccessDecision():
            return (
                f"Principal = {escaped(event.principal)} is {'Allowed' if event.is_allowed else 'Denied'} "
                f"operation = {event.operation} from host = {escaped(event.address)} on resource = "
                f"{event.resource_type}:LITERAL:{escaped(event.resource_name)} for request = {event.api} "
                f"with resourceRefCount = {line.events} based on rule {escaped(event.rule)}"
            )
        case FailedLogin():
            user = escaped(event.user) if event.user else "unknown"
            return (
                f"User = {user} failed to log in by mechanism = {escaped(event.mechanism)} from host = "
                f"{escaped(event.address)} on listener = {escaped(event.listener)}: "
                f"{escaped(event.reason)}{times}"
            )
        case Change():
            detail = f" ({escaped(event.detail)})" if event.detail else ""
            return (
                f"Principal = {escaped(event.principal)} from host = {escaped(event.address)} asked for a "
                f"change of resource = {event.resource_type}:{escaped(event.resource_name)}{detail} by "
                f"request = {escaped(event.api)} with outcome = {event.outcome}{times}"
            )


def object_of(line: Line, node_id: int) -> bytes:
    """Return the line as JSON for the file, with its line break."""
    if isinstance(line, LeftOutLine):
        return _encoded(
            {
                "time": time_text(line.last_ms),
                "node": node_id,
                "kind": "left_out",
                "of": line.kind,
                "principal": line.source.principal or None,
                "address": line.source.address or None,
                "count": line.events,
            }
        )
    event = line.event
    fields: dict[str, object] = {
        "time": time_text(line.last_ms),
        "node": node_id,
        "kind": event.kind,
        **{name: value for name, value in event._asdict().items() if name != "is_allowed"},
        "count": line.events,
    }
    if line.first_ms != line.last_ms:
        fields["first"] = time_text(line.first_ms)
    return _encoded(fields)


def lost_object(count: int, now_ms: int, node_id: int) -> bytes:
    """Return the JSON object that counts the lines before it that could not be written."""
    return _encoded({"time": time_text(now_ms), "node": node_id, "kind": LOST, "count": count})


def time_text(time_ms: int) -> str:
    """Return a time in ISO 8601, UTC, with milliseconds."""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"


def _encoded(fields: dict[str, object]) -> bytes:
    # Escapes everything beyond ASCII, including line breaks such as U+2028.
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
