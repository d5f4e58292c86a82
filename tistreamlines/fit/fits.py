"""Brain mask, FA and orientation functions of a series, fitted when needed and kept in the cache."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..aliases import Array, Json
from ..devices import CPU, usable_cores
from ..errors import DeviceMemoryError, InputError
from ..io.cache import Results
from ..io.nifti import Dwi
from ..io.response import identity
from ..space.harmonics import count_of
from .models import MODELS, FitOptions, Fitted, volumes_of
from .shells import gradients_on_shell, on_shell, shell_of_tensor
from .tissues import TISSUES

Mask = npt.NDArray[np.bool_]
Map = npt.NDArray[np.float32]
FEW_OF_CORE = 1 << 12  # voxels that a core fits before a GPU is ready: in 0.3 s
SMALL = 0.1  # of the voxels with signal: a brain mask of fewer voxels is doubtful


class Fits:
    """Fits of a series, each made when it is first needed.

    Parameters
    ----------
    dwi : Dwi
        The series.
    mask : ndarray of bool, (x, y, z), or None
        Voxels to fit; None is the brain mask of DIPY's median_otsu.
    threads : int or None
        Number of CPU threads; None is one per core.
    causes : mapping or None
        Inputs of the fits besides the options: the SHA-256 of each input by name.
    cache : Results or None
        Where fits are kept.
    note : callable
        Called with a sentence about each choice for the user.
    warn : callable
        Called with a sentence about what may be wrong.
    progress : callable
        Called with the share of fitted voxels, 0 to 1.
    arch : str
        That of the device which fits models to many voxels. The bits are the same.
    """

    def __init__(
        self, dwi: Dwi, mask: Mask | None, threads: int | None = None, causes: Mapping[str, object] | None = None,
        cache: Results | None = None, note: Callable[[str], object] = lambda _: None,
        warn: Callable[[str], object] = lambda _: None, progress: Callable[[float], object] = lambda _: None,
        arch: str = CPU,
    ) -> None:
        self._dwi, self._mask, self._threads, self._causes = dwi, mask, threads, dict(causes or {})
        self._arch = arch
        self._cache, self._note, self._warn, self._progress = cache, note, warn, progress
        self.chosen: Json = {}  # from the data, by the last fit of a model
        self.shares: Mapping[str, Map] = {}  # of tissues, by the same fit

    @property
    def mask(self) -> Mask:
        """Voxels that are fitted, (x, y, z) bool."""
        return self._take_mask(brain(self._dwi)) if self._mask is None else self._mask

    def anisotropy(self) -> Map:
        """Fit FA to the shell nearest to b = 1000; return it, (x, y, z) float32, 0 outside the mask."""

        def unpack(arrays: Mapping[str, Array], _: object) -> tuple[Mask, Map]:
            _check_form("fa", arrays["fa"], self._shape, "f")
            return self._keep_mask(arrays), arrays["fa"]

        kept = self._cache.load("fa", self._causes, unpack) if self._cache else None
        if kept is not None:
            mask, fa = kept
            self._take_mask(mask)
            return fa
        gtab, volumes = gradients_on_shell(self._dwi.gtab, shell_of_tensor)
        from .tensor import tensor_fa  # whose kernels runs from the cache do without

        fa = tensor_fa(self._dwi.data, gtab, self.mask, self._threads, volumes)
        if self._cache:
            self._cache.store("fa", self._causes, {"fa": fa, "mask": self.mask}, {})
        return fa

    def coefficients(self, model: str, options: FitOptions) -> Map:
        """Fit a model to the shells that serve it best, :func:`.models.volumes_of`.

        Parameters
        ----------
        model : str
            Key of :data:`tistreamlines.fit.models.MODELS`.
        options : FitOptions
            Options of the models.

        Returns
        -------
        ndarray, (x, y, z, n), float32
            Spherical harmonic coefficients of the orientation function in ``models.BASIS``, 0 outside the mask.

        Raises
        ------
        InputError
            If the series does not determine the model.
        """
        names = ("sh_order", "sm_lambda", "min_signal", "fa_response", "csd_lambda", "csd_shells", "normalise")
        causes = self._causes | {"model": model} | {name: getattr(options, name) for name in names}
        causes |= {name: identity(getattr(options, name)) for name in map("response_{}".format, TISSUES)}
        response: Any = options.response  # Parameters has made numbers text
        causes["response"] = identity(response)

        def unpack(arrays: Mapping[str, Array], values: Json) -> tuple[Mask, Fitted, list[str]]:
            mask, tissues = self._keep_mask(arrays), values["tissues"]
            for name, columns in (("harmonics", count_of(options.sh_order)), ("shares", len(tissues))):
                _check_form(name, arrays[name], (int(mask.sum()), columns), "f")
            shares = dict(zip(tissues, np.moveaxis(_spread(mask, arrays["shares"]), -1, 0), strict=True))
            fit = Fitted(_spread(mask, arrays["harmonics"]), dict(values["chosen"]), shares)
            return mask, fit, list(values["notes"])

        kept = self._cache.load("odf", causes, unpack) if self._cache else None
        if kept is not None:
            mask, fit, notes = kept
            self._take_mask(mask)
        else:
            with warnings_of_fit() as notes:
                fit = self._fit(model, options)
        self.chosen, self.shares = fit.chosen, fit.shares
        for text in notes:
            self._note(f"{self._dwi.path}: {text}")
        if self._cache and kept is None:
            shares = [share[self.mask] for share in fit.shares.values()]
            arrays = {"harmonics": fit.coefficients[self.mask], "mask": self.mask}
            arrays["shares"] = np.array(shares, np.float32).reshape(len(shares), int(self.mask.sum())).T
            self._cache.store("odf", causes, arrays, {"chosen": fit.chosen, "notes": notes, "tissues": [*fit.shares]})
        return fit.coefficients

    @property
    def _shape(self) -> tuple[int, ...]:
        return self._dwi.data.shape[:3]

    def _take_mask(self, mask: Mask) -> Mask:
        """Use a brain mask that was computed, now or for the cache, unless the user has named a mask."""
        if self._mask is None:
            self._mask = mask
            text = f"no --mask: median_otsu of the mean b0 selects {mask.sum()} voxels, {mask.mean():.0%} of the image"
            if mask.sum() < SMALL * np.count_nonzero(self._dwi.mean_b0 > 0):
                self._warn(f"{text}, which may miss a part of the brain: look at the streamlines, or give --mask")
            else:
                self._note(text)
        return self._mask

    def _keep_mask(self, arrays: Mapping[str, Array]) -> Mask:
        _check_form("mask", arrays["mask"], self._shape, "b")
        return arrays["mask"]

    def _fit(self, model: str, options: FitOptions) -> Fitted:
        from .model_fits import MODEL_FITS

        dwi = self._dwi
        if not MODELS[model].all_shells:
            data, gtab = on_shell(dwi.data, dwi.gtab, volumes_of(options))
            dwi = replace(dwi, data=data, gtab=gtab)
        few = self.mask.sum() < FEW_OF_CORE * (self._threads or usable_cores())

        def fitted_on(arch: str) -> Fitted:
            return MODEL_FITS[model](dwi, self.mask, options, self._threads, self._progress, arch)

        try:
            try:
                return fitted_on(CPU if few else self._arch)
            except DeviceMemoryError:  # others use the GPU
                return fitted_on(CPU)
        except InputError as error:
            raise InputError(f"{dwi.path}: {error.on_command_line}") from error


def _check_form(name: str, array: Array, shape: tuple[int, ...], kind: str) -> None:
    """Raise ValueError if an array that was kept has another shape or type than the one that is needed."""
    if array.shape != shape or array.dtype.kind != kind:
        raise ValueError(f"{name} is {array.dtype} {array.shape}, not {shape}")


def _spread(mask: Mask, inside: Array) -> Map:
    """Return the coefficients of all voxels (x, y, z, n) from those in the mask."""
    whole = np.zeros((*mask.shape, inside.shape[1]), np.float32)
    whole[mask] = inside
    return whole


def brain(dwi: Dwi) -> Mask:
    """Return a brain mask (x, y, z) from DIPY's median_otsu of the mean b0.

    Raises
    ------
    InputError
        If no brain is found.
    """
    from dipy.segment.mask import median_otsu

    mask = np.asarray(median_otsu(dwi.mean_b0, median_radius=2, numpass=1)[1], bool)
    if dwi.missing is not None:
        mask &= ~dwi.missing
    if not mask.any():
        raise InputError(f"{dwi.path}: median_otsu finds no brain in the mean b0; give --mask")
    return mask


@contextmanager
def warnings_of_fit() -> Generator[list[str], None, None]:
    """Yield a list, which has each different warning of the block once, when the block has ended."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    texts += dict.fromkeys(str(warning.message) for warning in caught if issubclass(warning.category, UserWarning))
