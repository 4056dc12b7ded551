"""The rows of a mirror in Spark: read from the source, renamed, marked, ready for the target."""

from typing import TYPE_CHECKING

from ottla.pipeline.mirror.mirror_options import MirrorOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def source_options(options: MirrorOptions) -> dict[str, str]:
    """Return the options of the query's source."""
    settings = {
        **options.source_client,
        # Spark looks for the pattern anywhere in a name.
        "subscribePattern": f"^{options.topics.pattern()}$",
        "includeHeaders": "true",
        "startingOffsets": options.starting_offsets,
        "failOnDataLoss": str(options.fail_on_data_loss).lower(),
        "kafka.group.id": options.progress_group,
    }
    if options.max_offsets_per_trigger is not None:
        settings["maxOffsetsPerTrigger"] = str(options.max_offsets_per_trigger)
    return settings


def sink_options(options: MirrorOptions) -> dict[str, str]:
    """Return the options of the query's sink."""
    return {
        **options.target_client,
        "delivery.guarantee": "exactly_once",
        "transactional.id": options.transactional_id,
        "transactional.id.takeover": str(options.takes_over).lower(),
        "offset.syncs.topic": options.policy.offset_syncs_topic(),
        "offset.lag.max": str(options.offset_lag_max),
    }


def mirrored_rows(spark: "SparkSession", options: MirrorOptions) -> "DataFrame":
    """Return the rows of the source, with the target's names of topics and the provenance header.

    With that header, rows that came from the target are left out.
    """
    rows = spark.readStream.format("ottla").options(**source_options(options)).load()
    return _renamed(rows, options)


def _renamed(rows: "DataFrame", options: MirrorOptions) -> "DataFrame":
    from pyspark.sql import functions as f

    headers = f.col("headers")
    name = options.provenance_header
    if name is not None:
        target, source = options.policy.target_alias.encode(), options.policy.source_alias.encode()
        is_from_target = f.exists(
            headers, lambda one: (one["key"] == f.lit(name)) & one["value"].eqNullSafe(f.lit(target))
        )
        rows = rows.where(headers.isNull() | ~is_from_target)
        mark = f.array(f.struct(f.lit(name).alias("key"), f.lit(source).alias("value")))
        headers = f.when(headers.isNull(), mark).otherwise(f.concat(headers, mark))
    return rows.select(
        "key",
        "value",
        headers.alias("headers"),
        f.concat(f.lit(options.policy.prefix), "topic").alias("topic"),
        "partition",
        "timestamp",
        "offset",
    )
