"""The checker of transactions must find each violation, or the storm proves nothing."""

import pytest

from tests.chaos.transaction_history import (
    ReadRecord,
    TransactionHistory,
    TransactionOutcome,
    TransactionStamp,
)

COMMITTED, ABORTED, UNDECIDED = (TransactionStamp("w", number) for number in range(3))
LOG = [(0, 5, COMMITTED), (1, 2, COMMITTED)]
UNDECIDED_LOG = [(0, 7, UNDECIDED), (1, 4, UNDECIDED)]


def a_history(read: list[ReadRecord] | None = None) -> TransactionHistory:
    return TransactionHistory(
        partitions=dict.fromkeys((COMMITTED, ABORTED, UNDECIDED), (0, 1)),
        outcomes={
            COMMITTED: TransactionOutcome.COMMITTED,
            ABORTED: TransactionOutcome.ABORTED,
            UNDECIDED: TransactionOutcome.UNKNOWN,
        },
        read=LOG if read is None else read,
    )


def test_a_transaction_with_an_unknown_result_may_be_committed_or_not() -> None:
    assert a_history().problems(LOG) == []
    assert a_history().problems(LOG + UNDECIDED_LOG) == []


def test_a_stamp_is_decoded_as_it_was_encoded() -> None:
    stamp = TransactionStamp("a/writer", 7)

    assert TransactionStamp.decode(stamp.encode()) == stamp


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        (LOG[:1], "committed"),
        ([], "committed"),
        ([*LOG, (1, 9, COMMITTED)], "committed"),
        ([*LOG, (0, 7, ABORTED)], "aborted"),
        (LOG + UNDECIDED_LOG[1:], "unknown"),
        ([*LOG, (0, 9, TransactionStamp("w", 9))], "never sent"),
        ([(0, 6, COMMITTED), LOG[1]], "changed"),
    ],
)
def test_a_violation_of_each_rule_is_found(log: list[ReadRecord], kind: str) -> None:
    problems = a_history().problems(log)

    assert any(problem.startswith(kind) for problem in problems), problems


def test_a_record_read_from_an_aborted_transaction_is_found() -> None:
    assert a_history([(0, 7, ABORTED)]).problems(LOG)[0].startswith("changed")
