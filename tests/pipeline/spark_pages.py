"""The pages that start Spark. Their tests share one session, as each start takes half a minute."""

from typing import Final

SPARK_PAGES: Final = ("spark.md", "jobs.md", "connectors.md", "mirror.md", "streams.md")
