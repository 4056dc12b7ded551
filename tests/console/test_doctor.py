"""The findings of the doctor in the console."""

import json
from typing import Any

import pytest

from tests.console.console_page import ConsolePage

pytestmark = pytest.mark.slow

ANSWER = """
const ask = window.fetch;
window.fetch = async (where, ...more) => {
  if (!String(where).includes("/v1/doctor")) return ask(where, ...more);
  return new Response(JSON.stringify(%s), { status: 200, headers: { "Content-Type": "application/json" } });
};
"""


def finds(console: ConsolePage, *findings: tuple[str, str, str]) -> None:
    """Make the node return exactly these findings."""
    rows = [dict(zip(("severity", "subject", "message"), one, strict=True)) for one in findings]
    is_healthy = all(severity != "problem" for severity, *_ in findings)
    report: Any = {"is_healthy": is_healthy, "checked_at": "2026-01-31T12:00:00.000Z", "findings": rows}
    console.load("#/quorum")
    console.script(ANSWER % json.dumps(report))
    console.open("#/doctor")


def test_findings_about_the_cluster_are_on_the_doctors_page(console: ConsolePage) -> None:
    console.click("Doctor")

    console.eventually(lambda: console.title() == "Doctor", "the page is not shown")
    console.sees("examined at", "Look again")
    count_requests = (
        "return performance.getEntriesByType('resource').filter((one) => one.name.includes('doctor')).length"
    )
    before = console.script(count_requests)
    console.click("Look again")
    console.eventually(lambda: console.script(count_requests) > before, "there is no further request")


def test_problems_and_notes_have_a_cause_and_a_link_to_details(console: ConsolePage) -> None:
    finds(
        console,
        ("problem", "quorum", "Voter 2 is silent: start it again."),
        ("note", "clock", "The clock of <b>node 1</b> is 2 s ahead."),
    )

    console.sees("1 problem.", "1 note, examined at")
    assert console.cells("Voter 2 is silent") == ["problem", "Quorum", "Voter 2 is silent: start it again."]
    assert console.cells("2 s ahead") == ["note", "Clock", "The clock of <b>node 1</b> is 2 s ahead."]
    console.row("Voter 2 is silent").find_element("link text", "Quorum").click()
    console.eventually(lambda: console.title() == "Metadata quorum", "the link leads elsewhere")
    console.load()


def test_the_page_says_that_there_are_no_findings(console: ConsolePage) -> None:
    finds(console)

    console.sees("No problems were found.", "There is nothing to do.")
    console.load()
