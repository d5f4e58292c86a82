"""Runs on a cluster with dask.distributed, by the name under which users import them."""

from __future__ import annotations

from .run.cluster import track, track_many

__all__ = ["track", "track_many"]
