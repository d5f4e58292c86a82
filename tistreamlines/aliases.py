"""Types that many modules name: arrays, objects of JSON, and classes that take long to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from dipy.core import sphere
    from dipy.io import stateful_tractogram
    from dipy.reconst import csdeconv
    from nibabel import nifti1, spatialimages
    from scipy import sparse

Scalar = TypeVar("Scalar", bound=np.generic)
Array = npt.NDArray[Any]  # of any shape and kind
Vector = np.ndarray[tuple[int], np.dtype[Scalar]]  # of one dimension
Json = dict[str, Any]  # an object of JSON, such as what a record says of a file
# for annotations alone, which import nothing
Sphere: TypeAlias = "sphere.Sphere"
StatefulTractogram: TypeAlias = "stateful_tractogram.StatefulTractogram"
AxSymShResponse: TypeAlias = "csdeconv.AxSymShResponse"
SpatialImage: TypeAlias = "spatialimages.SpatialImage"
Nifti1Image: TypeAlias = "nifti1.Nifti1Image"
Nifti1Header: TypeAlias = "nifti1.Nifti1Header"
csr_matrix: TypeAlias = "sparse.csr_matrix"


class GradientTable(Protocol):
    """The gradients of n volumes: DIPY's class of this name, or :class:`tistreamlines.space.encoding.Encoding`."""

    @property
    def bvals(self) -> Any: ...

    @property
    def bvecs(self) -> Any: ...

    @property
    def gradients(self) -> Any: ...

    @property
    def b0s_mask(self) -> Any: ...

    @property
    def b0_threshold(self) -> Any: ...

    @property
    def big_delta(self) -> Any: ...

    @property
    def small_delta(self) -> Any: ...

    @property
    def btens(self) -> Any: ...
