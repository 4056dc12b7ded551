"""Throttles for the copying of replicas in the console."""

import pytest

from ottla.node.embedded import Cluster
from tests.console.console_page import ConsolePage
from tests.console.makers import make_topic

pytestmark = pytest.mark.slow


def test_throttles_are_set_shown_and_removed_after_confirmation(
    console: ConsolePage, cluster: Cluster
) -> None:
    topic = make_topic(cluster, "slow")
    console.open("#/reassignments")
    console.click("Throttles")
    console.sees("replicas in sync are not slowed down.")

    console.fill("Sent, MiB/s", "fast")
    console.click("Set the limits")
    console.sees("Sent, MiB/s must be a number above zero.")
    console.fill("Sent, MiB/s", "1.5")
    console.fill("Fetched, MiB/s", "2")
    console.click("broker 0")
    console.click("broker 1")
    console.choose("Topics", topic)
    console.click("Set the limits")

    console.sees("The limits are set.")
    for broker in ("0", "1"):
        console.eventually(
            lambda broker=broker: console.cells_of(broker) == [broker, "1.5 MiB/s", "2 MiB/s", "–"],  # type: ignore[misc]
            f"broker {broker} has no limit",
        )
    assert console.cells_of(topic) == [topic, "all", "all"]

    console.click("Remove all limits…")
    console.sees("as fast as disks and network allow")
    console.click("Remove all limits")

    console.sees("All limits were removed.", "There are no limits.")


def test_a_form_without_throttles_is_reported_as_incomplete(console: ConsolePage) -> None:
    console.open("#/reassignments/throttles")
    console.click("Set the limits")
    console.sees("Give a rate, or the topics that the rates apply to.")
