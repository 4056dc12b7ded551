"""A mirror: topics of one cluster, their settings and groups, in another, followed until it is stopped."""

from ottla.pipeline.mirror.mirror_job import MirrorJob, run
from ottla.pipeline.mirror.mirror_options import MirrorOptions
from ottla.pipeline.mirror.mirror_status import MirrorStatus

__all__ = ["MirrorJob", "MirrorOptions", "MirrorStatus", "run"]
