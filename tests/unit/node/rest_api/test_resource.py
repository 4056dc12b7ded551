"""Links and names of resources, with any characters in them."""

import orjson
import pytest

from ottla.node.rest_api.answer_room import AnswerPart, AnswerRoom
from ottla.node.rest_api.resource import DataPieces, resource_name, url


@pytest.mark.parametrize(
    ("segment", "written"),
    [
        ("orders.eu-1_x~", "orders.eu-1_x~"),
        ("a/b", "a%2Fb"),
        ("a b?#", "a%20b%3F%23"),
        ("ä", "%C3%A4"),
        (7, "7"),
    ],
)
def test_a_segment_of_a_link_stays_one(segment: str | int, written: str) -> None:
    assert url("http://h:1", "clusters", segment) == f"http://h:1/v3/clusters/{written}"
    assert resource_name(kafka="id", consumer_group=segment) == f"crn:///kafka=id/consumer-group={written}"


def test_a_long_list_is_written_in_pieces() -> None:
    room = AnswerRoom(lambda: 0.0)
    part = AnswerPart(room, lambda: None)
    pieces = DataPieces(part)
    for data in ([{"a": 1}, {"a": 2}], [], [{"a": 3}]):
        pieces.add(data)

    assert pieces.count == 3 and room.held_bytes == 2 * len('{"a":1},{"a":2}{"a":3}')

    assert orjson.loads(orjson.dumps({"data": pieces.whole()})) == {"data": [{"a": 1}, {"a": 2}, {"a": 3}]}
    assert orjson.dumps(DataPieces(part).whole()) == b"[]"
