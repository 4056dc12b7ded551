"""A mirror: copies topics of one cluster, their settings and groups, to another, until it is stopped."""

from ottla.pipeline.spark_needed import spark_error

try:
    from ottla.pipeline.mirror.mirror_job import MirrorJob, run
    from ottla.pipeline.mirror.mirror_options import MirrorOptions
    from ottla.pipeline.mirror.mirror_status import MirrorStatus
except ModuleNotFoundError as error:
    raise spark_error(error) from None

__all__ = ["MirrorJob", "MirrorOptions", "MirrorStatus", "run"]
