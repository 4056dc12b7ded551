"""The figures of `scripts/bench shares`, computed from the output of its members."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[3] / "scripts"))

from benchmarks.share_workers import Workers
from benchmarks.shares import WITHOUT_KAFKA, WORKLOADS
from benchmarks.workload import lower_is_better


def test_the_rate_counts_records_after_the_first_ones() -> None:
    workers = Workers(counts=[(12.0, 300), (10.0, 500), (11.0, 100)])

    assert workers.total == 900
    assert workers.rate() == pytest.approx(200.0)


def test_waiting_for_records_has_a_limit() -> None:
    with pytest.raises(RuntimeError, match="only 5 of 6 records"):
        Workers(counts=[(1.0, 5)]).wait(6, 0.05)


def test_workloads_that_apache_kafka_lacks_have_no_goals() -> None:
    assert [one.name for one in WORKLOADS if not one.goals] == [
        one.name for one in WORKLOADS if WITHOUT_KAFKA in one.name
    ]


def test_less_cpu_time_per_record_is_better() -> None:
    assert lower_is_better("CPU us/record")
