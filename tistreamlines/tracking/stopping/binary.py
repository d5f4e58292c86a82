"""The stopping rule that ends streamlines outside a mask, as DIPY's ``BinaryStoppingCriterion``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ...aliases import Array
from ...errors import InputError, ParameterError
from ...kernels.stopping import binary
from ...option import SEEDS, ImageLike, option
from ..parts import Rule
from ..tables.given import StopTables


@dataclass(frozen=True)
class BinaryOptions:
    """Options of the stopping rule, a part of :class:`tistreamlines.Parameters`."""

    stop_mask: ImageLike | None = option(
        None, SEEDS, "Streamlines end outside this mask. The value of the nearest voxel counts; from 0.5 on it is "
        "inside.", unit="FILE", absent="--mask; one of them is needed, but not with ifod1, ifod2, sd_stream",
        common=True,
    )


def rule_of(options: BinaryOptions, sides: tuple[float, ...]) -> Rule:
    """Return the rule, which depends on nothing."""
    del options, sides
    return Rule(stopping=binary.Binary(), classify=binary.classify)


def prepare(
    maps: Mapping[str, Array], anisotropy: Callable[[], Array], options: BinaryOptions, sides: tuple[float, ...]
) -> StopTables:
    """Make the tables of the rule.

    Parameters
    ----------
    maps : mapping
        ``stop_mask``, an ndarray (x, y, z).
    anisotropy, sides : unused
        See :class:`tistreamlines.tracking.registry.StoppingRule`.
    options : BinaryOptions
        Options of the rule.

    Returns
    -------
    StopTables
        The tables.

    Raises
    ------
    ParameterError
        If there is no mask.
    InputError
        If the mask is empty.
    """
    if "stop_mask" not in maps:
        raise ParameterError(
            "--stopping binary needs --stop-mask, or --mask for it: give the mask of the brain, or of the voxels that "
            "have an orientation function"
        )
    inside = maps["stop_mask"] > 0
    if not inside.any():
        raise InputError(f"{options.stop_mask}: no voxel is above 0, so no streamline could grow: give another mask")
    return StopTables(rule_of(options, sides), inside.astype(np.float32)[..., None], inside)
