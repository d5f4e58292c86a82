"""What a registry's row of weights makes, without the import of all that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...space.batch import Space
    from ..products.files import ProductFile


def make(options: Any, space: Space, step_mm: float, threads: int | None) -> ProductFile:
    """Return what weighs the streamlines; its modules take time to import."""
    from .product import Sift2Weights

    return Sift2Weights(options, space, step_mm, threads)
