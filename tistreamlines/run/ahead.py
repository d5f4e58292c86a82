"""Compilation of the kernels in a thread, while the inputs are read and fitted.

Kernels depend on the options and on the shapes of the inputs, which are in the headers, but not on the values. So an
image of a few voxels is tracked in place of the inputs, and the process keeps the code that is compiled for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from ..devices import Device
from ..engine.engine import Engine
from ..engine.settings import Settings
from ..io.images import open_image
from ..io.nifti import Dwi, load_gradients
from ..io.orientations import Orientations
from ..io.tractogram import Space
from ..methods.registry import STOPPING_RULES
from ..sphere.harmonics import count_of
from .inputs import Inputs, Series
from .parameters import Parameters
from .plan import tables_of
from .seeds import RandomSeeds

SHAPE = (2, 2, 2)
HIGH = 1e30  # above any threshold of a map


class Ahead:
    """The compilation of the kernels of a run.

    Parameters
    ----------
    parameters : all options.
    device : where streamlines are computed.
    settings : returns the settings of the engine for voxels of given sides in mm.
    """

    def __init__(
        self, parameters: Parameters, device: Device, settings: Callable[[npt.NDArray[np.float64]], Settings]
    ) -> None:
        self._parameters, self._device, self._settings = parameters, device, settings
        self._thread: Thread | None = None

    def start(self, series: Series) -> None:
        """Start to compile for a series, or for the orientations among the parameters."""
        self._thread = Thread(target=self._compile, args=(series,), name="compile")
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of the compilation, if it was started."""
        if self._thread is not None:
            self._thread.join()

    def _compile(self, series: Series) -> None:
        parameters = self._parameters
        with suppress(Exception):  # it occurs again in the run itself
            inputs = _stand_in(series, parameters)
            stop = STOPPING_RULES[parameters.stopping].prepare(inputs.maps, lambda: np.full(SHAPE, HIGH), parameters)
            coefficients = np.ones((*SHAPE, count_of(parameters.sh_order)), np.float32) if parameters.model else None
            prepared = tables_of(inputs, coefficients, stop, np.zeros((1, 3)), parameters)
            if parameters.seeds is None:
                RandomSeeds(np.zeros((1, 3), np.int32), 1, 0, parameters.threads).points(0, 1)
            Engine(prepared, inputs.space, self._device, self._settings(inputs.space.voxel_sizes))


def _stand_in(series: Series, parameters: Parameters) -> Inputs:
    """Return inputs of a few voxels with the gradients, the voxel sizes and the numbers of volumes of the real ones."""
    source: Any = parameters.source
    path, image = open_image(series["dwi"] if series else getattr(parameters, source))
    space = Space(np.diag([*np.linalg.norm(image.affine[:3, :3], axis=0), 1.0]), SHAPE)
    dwi = oriented = None
    if series:
        gtab = load_gradients(series["bvals"], series["bvecs"], path, image.shape[3])
        dwi = Dwi(np.ones((*SHAPE, image.shape[3]), np.float32), space, gtab, path)
    if source != "model":
        volumes = open_image(getattr(parameters, source))[1].shape[3:]
        values = np.ones((*SHAPE, *volumes), np.float32).reshape(*SHAPE, -1)
        oriented = Orientations(source, values, parameters.sh_basis, parameters.sphere, space)
    given = (name for name in STOPPING_RULES[parameters.stopping].maps if getattr(parameters, name) is not None)
    maps = {name: np.full(SHAPE, HIGH, np.float32) for name in given}
    return Inputs(space, dwi, oriented, None, None, maps, {})
