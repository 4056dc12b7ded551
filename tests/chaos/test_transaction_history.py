"""The checker of transactions must find each violation, or the storm proves nothing."""

import pytest

from tests.chaos.transaction_history import Fate, Shown, TransactionHistory, TransactionStamp

GOOD, BAD, SILENT = (TransactionStamp("w", number) for number in range(3))
LOG = [(0, 5, GOOD), (1, 2, GOOD)]
SILENT_LOG = [(0, 7, SILENT), (1, 4, SILENT)]


def a_history(shown: list[Shown] | None = None) -> TransactionHistory:
    return TransactionHistory(
        partitions=dict.fromkeys((GOOD, BAD, SILENT), (0, 1)),
        fates={GOOD: Fate.COMMITTED, BAD: Fate.ABORTED, SILENT: Fate.UNKNOWN},
        shown=LOG if shown is None else shown,
    )


def test_a_transaction_with_an_unknown_result_may_be_committed_or_not() -> None:
    assert a_history().problems(LOG) == []
    assert a_history().problems(LOG + SILENT_LOG) == []
    assert TransactionStamp.decode(GOOD.encode()) == GOOD


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        (LOG[:1], "committed"),
        ([], "committed"),
        ([*LOG, (1, 9, GOOD)], "committed"),
        ([*LOG, (0, 7, BAD)], "aborted"),
        (LOG + SILENT_LOG[1:], "unknown"),
        ([*LOG, (0, 9, TransactionStamp("w", 9))], "unheard of"),
        ([(0, 6, GOOD), LOG[1]], "changed"),
    ],
)
def test_a_violation_of_each_rule_is_found(log: list[Shown], kind: str) -> None:
    problems = a_history().problems(log)

    assert any(problem.startswith(kind) for problem in problems), problems


def test_a_record_read_from_an_aborted_transaction_is_found() -> None:
    assert a_history([(0, 7, BAD)]).problems(LOG)[0].startswith("changed")
