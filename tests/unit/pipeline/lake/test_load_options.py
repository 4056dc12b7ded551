"""The options of a load: some options of a source are not for loads."""

import pytest

from ottla.pipeline.lake.load_options import LoadOptions
from ottla.pipeline.words import OptionError


def test_a_load_refuses_a_filter_of_records() -> None:
    given = {"path": "/lake", "kafka.bootstrap.servers": "h:1", "subscribe": "t", "Where": "offset >= 5"}

    with pytest.raises(OptionError, match="where: is for batch reads"):
        LoadOptions.from_options(given)
