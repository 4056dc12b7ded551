"""The number of rows that a query read from topics, from Spark's own metrics."""

from typing import Any

from pyspark.sql import DataFrame


def read_by_scans(frame: DataFrame) -> int:
    """Return the number of rows that the scans of a query gave to Spark: those read from topics."""
    execution: Any = frame._jdf.queryExecution()
    frame._jdf.collectToPython()
    found = 0
    left = [execution.executedPlan()]
    while left:
        plan = left.pop()
        if plan.nodeName() == "AdaptiveSparkPlan":
            left.append(plan.executedPlan())
        elif plan.nodeName() == "BatchScan ottla":
            found += plan.metrics().apply("numOutputRows").value()
        else:
            children = plan.children()
            left += [children.apply(index) for index in range(children.size())]
    return found
