"""The options of a sink: read, refused by name, contradictions found."""

import pytest

from ottla.pipeline.sink.sink_options import REFUSED, Guarantee, SinkOptions
from ottla.pipeline.words import OptionError

SERVERS = {"kafka.bootstrap.servers": "a:1"}
ONCE = {**SERVERS, "delivery.guarantee": "exactly_once", "transactional.id": "orders.copy"}


def read(**given: str) -> SinkOptions:
    return SinkOptions.from_options({**SERVERS, **given})


def refusal(options: dict[str, str]) -> OptionError:
    with pytest.raises(OptionError) as refused:
        SinkOptions.from_options(options)
    return refused.value


def test_a_sink_is_at_least_once_by_default() -> None:
    options = read()

    assert options.guarantee is Guarantee.AT_LEAST_ONCE
    assert options.topic is None
    assert not options.is_exactly_once


def test_options_arrive_in_lower_case_beside_those_of_spark() -> None:
    options = SinkOptions.from_options({**ONCE, "topic": "t", "checkpointlocation": "/c", "queryname": "q"})

    assert options.is_exactly_once
    assert (options.topic, options.transactional_id, options.takes_over) == ("t", "orders.copy", False)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_options_of_the_source_are_refused_in_their_own_spelling(name: str) -> None:
    for spelling in (name, name.lower()):
        error = refusal({**SERVERS, spelling: "1"})

        assert error.option == name
        assert error.problem


@pytest.mark.parametrize("name", ["asyncprogresstrackingenabled", "spark.speculation"])
def test_an_option_that_is_turned_off_is_accepted(name: str) -> None:
    assert SinkOptions.from_options({**SERVERS, name: "false"})


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"topik": "t"}, "topik: is not an option of this sink; topic?"),
        ({"fruit": "t"}, "fruit: is not an option of this sink"),
        ({"topic": "a b"}, "topic: Topic name 'a b' is not allowed"),
        ({"topic": ""}, "topic: Topic name '' is not allowed: it is empty"),
        (
            {"offset.syncs.topic": "t"},
            "offset.syncs.topic: has an effect only with delivery.guarantee=exactly_once",
        ),
        ({"offset.lag.max": "-1"}, "offset.lag.max: is -1; it must be from 0"),
        (
            {"delivery.guarantee": "at_most_once"},
            "delivery.guarantee: is 'at_most_once'; it must be one of at_least_once, ",
        ),
        ({"delivery.guarantee": "exactly_once"}, "transactional.id: is missing"),
        ({"delivery.guarantee": "exactly_once", "transactional.id": " "}, "transactional.id: is missing"),
        (
            {"transactional.id": "T"},
            "transactional.id: has an effect only with delivery.guarantee=exactly_once",
        ),
        (
            {"transactional.id.takeover": "true"},
            "transactional.id.takeover: has an effect only with delivery.guarantee",
        ),
        (
            {**ONCE, "transactional.id.takeover": "yes"},
            "transactional.id.takeover: is 'yes'; it must be true or false",
        ),
        (
            {**ONCE, "transactional.id": "a\nb"},
            "transactional.id: must have at most 200 printable characters",
        ),
        (
            {**ONCE, "transactional.id": "a" * 201},
            "transactional.id: must have at most 200 printable characters",
        ),
        ({**ONCE, "kafka.transactional.id": "T"}, "kafka.transactional.id: is an option of this format"),
        ({**ONCE, "kafka.acks": "1"}, "kafka.acks: must be all with delivery.guarantee=exactly_once"),
        (
            {**ONCE, "kafka.enable.idempotence": "false"},
            "kafka.enable.idempotence: must be true with delivery.guarantee=exactly_once",
        ),
    ],
)
def test_invalid_options_are_named(given: dict[str, str], named: str) -> None:
    assert str(refusal({**SERVERS, **given})).startswith(named)


def test_the_places_of_copied_rows_go_to_a_topic() -> None:
    options = SinkOptions.from_options({**ONCE, "offset.syncs.topic": "syncs", "offset.lag.max": "7"})

    assert (options.offset_syncs_topic, options.offset_lag_max) == ("syncs", 7)
    assert SinkOptions.from_options(ONCE).offset_syncs_topic is None
    assert refusal({**ONCE, "offset.syncs.topic": "a b"}).option == "offset.syncs.topic"
