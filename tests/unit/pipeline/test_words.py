"""The errors that the pipeline raises for its user."""

import copy

from ottla.pipeline.words import OptionError, with_nearest


def test_an_error_about_an_option_travels_between_processes() -> None:
    error = OptionError("topic", "is not named")

    arrived = copy.copy(error)  # by __reduce__, which Spark's pickles use

    assert (arrived.option, str(arrived)) == ("topic", "topic: is not named")


def test_an_unknown_name_is_reported_with_the_nearest_in_its_spelling() -> None:
    known = ["startingOffsets", "topic"]

    assert with_nearest("is unknown", "startingofset", known) == "is unknown; startingOffsets?"
    assert with_nearest("is unknown", "fruit", known) == "is unknown"
