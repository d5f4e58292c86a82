"""What is fitted to a series: its brain, FA, and harmonics for all getters but boot; kept in the cache."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..io import nifti
from ..io.cache import Cache
from ..methods import boot as models
from ..options.option import flag
from ..run.parameters import Parameters
from .csd import csd_response, fit_csd, lowest_shell

Mask = npt.NDArray[np.bool_]
Map = npt.NDArray[np.float32]
BASIS = "descoteaux07_legacy"  # of DIPY's models
VOXELS_AT_ONCE = 1 << 14
_DIPYS = {"opdt": "OpdtModel", "csa": "CsaOdfModel"}  # in dipy.reconst.shm


@dataclass(frozen=True)
class Telling:
    """Whom to tell of choices made for the user (``note``) and of the share of voxels fitted (``progress``)."""

    note: Callable[[str], object]
    progress: Callable[[float], object]


class Fits:
    """Fits of a series, each made when first asked for.

    Parameters
    ----------
    dwi : the series.
    mask : (x, y, z), the voxels to fit; None for what DIPY's median_otsu takes for brain.
    parameters : all options.
    hashes : sha256 of the inputs by name, and the ``frame`` that the gradients were taken in.
    cache : where fits are kept, if anywhere.
    telling : whom to tell.
    """

    def __init__(
        self, dwi: nifti.Dwi, mask: Mask | None, parameters: Parameters, hashes: Mapping[str, str], cache: Cache | None,
        telling: Telling,
    ) -> None:  # fmt: skip
        self._dwi, self._mask, self._parameters = dwi, mask, parameters
        self._cache, self._telling = cache, telling
        self._causes = {name: hashes.get(name) for name in ("dwi", "bvals", "bvecs", "mask", "frame")}

    @property
    def mask(self) -> Mask:
        """Voxels that are fitted."""
        if self._mask is None:
            self._mask = mask = brain(self._dwi)
            self._telling.note(
                f"no --mask: median_otsu of the mean b0 takes {mask.sum()} voxels, {mask.mean():.0%} of the image"
            )
        return self._mask

    def anisotropy(self) -> Map:
        """FA in the mask, 0 outside: (x, y, z) float32."""
        def unpack(arrays: Mapping[str, npt.NDArray[Any]], _: object) -> tuple[Mask, Map]:
            return arrays["mask"], arrays["fa"]

        kept = self._cache.load("fa", self._causes, unpack) if self._cache else None
        if kept is not None:
            self._mask, fa = kept
            return fa
        fa = models.tensor_fa(self._dwi.data, self._dwi.gtab, self.mask)
        if self._cache:
            self._cache.store("fa", self._causes, {"fa": fa, "mask": self.mask}, {})
        return fa

    def harmonics(self) -> Map:
        """Coefficients of the model's ODF in ``BASIS``, 0 outside the mask: (x, y, z, n) float32."""
        names = ("model", "sh_order", "sm_lambda", "min_signal", "fa_response")
        causes = self._causes | {name: self._parameters.as_dict()[name] for name in names}
        kept = self._cache.load("odf", causes, _spread) if self._cache else None
        if kept is not None:
            return kept
        with _noting(self._telling.note):
            whole = self._fitted()
        if self._cache:
            self._cache.store("odf", causes, {"harmonics": whole[self.mask], "mask": self.mask}, {})
        return whole

    def _fitted(self) -> Map:
        chosen, dwi, mask = self._parameters, self._dwi, self.mask
        data, gtab = lowest_shell(dwi.data, dwi.gtab)
        if data is not dwi.data:
            shell = gtab.bvals[~gtab.b0s_mask]
            self._telling.note(f"several shells: --model {chosen.model} is fitted to the lowest, b={shell.mean():.0f}")
        if chosen.model != "csd":
            return _fit_odf(data, gtab, mask, chosen)
        try:
            response, _ = csd_response(data, gtab, mask, chosen.fa_response)
        except InputError as error:
            words = str(error).replace("lower fa_threshold or give the response yourself", "lower --fa-response")
            raise InputError(f"{dwi.path}: {words}") from error
        return fit_csd(data, gtab, mask, response, chosen.sh_order, chosen.threads, self._telling.progress)


def _spread(arrays: Mapping[str, npt.NDArray[Any]], _: object) -> Map:
    """Harmonics of all voxels from those in the mask."""
    mask, inside = arrays["mask"], arrays["harmonics"]
    whole = np.zeros((*mask.shape, inside.shape[1]), np.float32)
    whole[mask] = inside
    return whole


def _fit_odf(data: Map, gtab: Any, mask: Mask, chosen: Parameters) -> Map:
    """Coefficients of DIPY's OPDT or CSA fit."""
    from dipy.reconst import shm

    options = {"sh_order_max": chosen.sh_order, "smooth": chosen.sm_lambda, "min_signal": chosen.min_signal}
    model = getattr(shm, _DIPYS[chosen.model])(gtab, **options)
    directions = int(np.count_nonzero(~gtab.b0s_mask))
    if directions < len(model.l_values):
        raise InputError(
            f"{directions} diffusion-weighted volumes cannot give the {len(model.l_values)} coefficients of order "
            f"{chosen.sh_order}: lower {flag('sh_order')}"
        )
    voxels = np.flatnonzero(mask)
    flat = data.reshape(-1, data.shape[3])
    out = np.zeros((mask.size, len(model.l_values)), np.float32)
    for first in range(0, len(voxels), VOXELS_AT_ONCE):
        some = voxels[first : first + VOXELS_AT_ONCE]
        out[some] = np.nan_to_num(model.fit(flat[some].astype(np.float64)).shm_coeff, posinf=0, neginf=0)
    return out.reshape(*mask.shape, -1)


def brain(dwi: nifti.Dwi) -> Mask:
    """Mask (x, y, z) of a series for which none was given: DIPY's median_otsu of its mean b0."""
    from dipy.segment.mask import median_otsu

    b0 = dwi.data[..., dwi.gtab.b0s_mask].mean(axis=-1)
    mask = np.asarray(median_otsu(b0, median_radius=2, numpass=1)[1], bool)
    if not mask.any():
        raise InputError(f"{dwi.path}: no brain found in its mean b0; give --mask")
    return mask


@contextmanager
def _noting(note: Callable[[str], object]) -> Generator[None, None, None]:
    """Turn warnings of a fit into notes, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    kept = {str(warning.message): None for warning in caught if issubclass(warning.category, UserWarning)}
    for text in kept:
        note(text)
