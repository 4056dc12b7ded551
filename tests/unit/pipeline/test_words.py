"""The errors of the pipeline's user."""

import copy

from pipeline.words import OptionError


def test_an_error_about_an_option_travels_between_processes() -> None:
    error = OptionError("topic", "is not named")

    arrived = copy.copy(error)  # by __reduce__, as Spark's pickles

    assert (arrived.option, str(arrived)) == ("topic", "topic: is not named")
