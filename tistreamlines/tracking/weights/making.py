"""Makes the product of the registry's row 'sift2'; the modules that it needs are imported only then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...space.batch import Space
    from ..products.files import ProductFile


def make(options: Any, space: Space, step_mm: float, threads: int | None) -> ProductFile:
    """Return what weighs the streamlines; its modules take time to import."""
    from .product import Sift2Weights

    return Sift2Weights(options, space, step_mm, threads)
