"""`scripts/messages` finds the texts that users read."""

import runpy
from pathlib import Path

SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "messages"))
python_messages, script_messages = SCRIPT["python_messages"], SCRIPT["script_messages"]

SOURCE = '''
"""A module that says nothing to users."""

def lead(topic, partition):
    """Return what leads a partition."""
    logger.info("leads %s since now", topic)
    raise KafkaError(code, f"partition {topic}-{partition} has no leader, of {len(them)}", field="two words")
'''


def test_errors_and_log_lines_are_messages_and_docstrings_are_not() -> None:
    found = [(one.place, one.call, one.example) for one in python_messages("a.py", SOURCE)]

    assert found == [
        ("a.py:6", "logger.info", "leads %s since now"),
        ("a.py:7", "KafkaError", "partition orders-0 has no leader, of 3"),
    ]


def test_texts_of_a_page_and_of_a_script_are_messages() -> None:
    page = "<p>The topic has no records</p>\n<b>Two</b>"
    script = "const a = 'one-word';\nshow(`The node ${id} is down now`);"

    assert [one.example for one in script_messages("a.html", page)] == ["The topic has no records"]
    assert [one.place for one in script_messages("a.js", script)] == ["a.js:2"]
