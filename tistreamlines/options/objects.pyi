"""Objects beside keywords. This file is written by ``python docs/generate.py``."""

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass
from typing import ClassVar, Literal

import numpy.typing as npt

from .. import option
from ..fit.models import Model
from ..option import OneOrMore, PathLike, PointsLike, TableLike  # noqa: F401  (an option of any row may need them)
from ..tracking import registry

Row = registry.Method | registry.StoppingRule | registry.Product | Model
MADE: str
KINDS: dict[str, str]
TABLES: dict[str, Mapping[str, Row]]

class Choice:
    """A row of a registry with some of its options, in place of its name.

    Parameters
    ----------
    **options
        Options of the row. Those that are left out, or None, have their default.

    Raises
    ------
    TypeError
        If the row has no such option.
    """

    option: ClassVar[str]  # the keyword that it is given as
    name: ClassVar[str]  # of the row
    row: ClassVar[Row]

    def __init__(self, **options: object) -> None: ...

@dataclass(frozen=True, eq=False)
class Sphere:
    """A ball in which seeds are placed, or a region of interest.

    Parameters
    ----------
    centre : array_like, (3,)
        Its centre, RASmm.
    radius : float
        Its radius, mm.
    """

    centre: npt.ArrayLike
    radius: float

@dataclass(frozen=True, eq=False)
class Mask:
    """The voxels of an image that are at least 0.5, on a grid of its own.

    Parameters
    ----------
    image : str, Path, nibabel image or (x, y, z) ndarray
        The mask.
    affine : (4, 4) array_like, optional
        From voxel coordinates of an array to RASmm. Without it, an array has the affine that ``track`` is given.
    """

    image: ImageLike
    affine: npt.ArrayLike | None = None

class Product(Choice):
    """A row of the products, with its options: the file to write first, and the others without the name of the row."""

    def __init__(self, path: PathLike, **options: object) -> None: ...

Region = Sphere | Mask
ImageLike = option.ImageLike | Region

def expanded(named: Mapping[str, object]) -> dict[str, object]: ...

def choice(option: str, name: str) -> type[Choice]: ...

def own_options(option: str, name: str) -> list[Field[object]]: ...

def arguments_of(option: str, name: str) -> list[str]: ...

def class_name(option: str, name: str) -> str: ...

class Boot(Choice):
    """Direction getter 'boot': residual bootstrap."""
    def __init__(
        self,
        *,
        model: str | Choice | None = ...,
        sphere: Literal["default", "full", "small"] | None = ...,
        relative_peak_threshold: float | None = ...,
        min_separation_angle: float | None = ...,
        max_directions: int | None = ...,
        max_angle: float | None = ...,
        angular_weight: float | None = ...,
        boot_rule: Literal["dipy", "cuslines"] | None = ...,
        negative_odf: Literal["dipy", "none"] | None = ...,
    ) -> None: ...

class Prob(Choice):
    """Direction getter 'prob': probabilistic."""
    def __init__(
        self,
        *,
        model: str | Choice | None = ...,
        sphere: Literal["default", "full", "small"] | None = ...,
        relative_peak_threshold: float | None = ...,
        min_separation_angle: float | None = ...,
        max_directions: int | None = ...,
        max_angle: float | None = ...,
        pmf_threshold: float | None = ...,
        pmf_rows: Literal["sh", "sampled"] | None = ...,
        peak_width: float | None = ...,
    ) -> None: ...

class Det(Choice):
    """Direction getter 'det': deterministic."""
    def __init__(
        self,
        *,
        model: str | Choice | None = ...,
        sphere: Literal["default", "full", "small"] | None = ...,
        relative_peak_threshold: float | None = ...,
        min_separation_angle: float | None = ...,
        max_directions: int | None = ...,
        max_angle: float | None = ...,
        pmf_threshold: float | None = ...,
        pmf_rows: Literal["sh", "sampled"] | None = ...,
        peak_width: float | None = ...,
        det_rule: Literal["max", "closest"] | None = ...,
    ) -> None: ...

class Ptt(Choice):
    """Direction getter 'ptt': parallel transport."""
    def __init__(
        self,
        *,
        model: str | Choice | None = ...,
        sphere: Literal["default", "full", "small"] | None = ...,
        relative_peak_threshold: float | None = ...,
        min_separation_angle: float | None = ...,
        max_directions: int | None = ...,
        max_angle: float | None = ...,
        pmf_threshold: float | None = ...,
        pmf_rows: Literal["sh", "sampled"] | None = ...,
        peak_width: float | None = ...,
        probe_length: float | None = ...,
        probe_radius: float | None = ...,
        probe_quality: int | None = ...,
        probe_count: int | None = ...,
        data_support_exponent: float | None = ...,
        probe_rule: Literal["dipy", "tracker", "paper"] | None = ...,
    ) -> None: ...

class Bedpostx(Choice):
    """Direction getter 'bedpostx': samples of fibres."""
    def __init__(
        self,
        *,
        max_angle: float | None = ...,
        bedpostx: OneOrMore[PathLike] | None = ...,
        min_f: float | None = ...,
        use_f: bool | None = ...,
        random_fibre: bool | None = ...,
        modified_euler: bool | None = ...,
    ) -> None: ...

class Ifod1(Choice):
    """Direction getter 'ifod1': iFOD1."""
    def __init__(
        self,
        *,
        model: str | Choice | None = ...,
        max_angle: float | None = ...,
        cutoff: float | None = ...,
        power: float | None = ...,
        trials: int | None = ...,
    ) -> None: ...

class Ifod2(Choice):
    """Direction getter 'ifod2': iFOD2."""
    def __init__(
        self,
        *,
        model: str | Choice | None = ...,
        max_angle: float | None = ...,
        cutoff: float | None = ...,
        power: float | None = ...,
        trials: int | None = ...,
        samples: int | None = ...,
    ) -> None: ...

class SdStream(Choice):
    """Direction getter 'sd_stream': SD_STREAM."""
    def __init__(
        self,
        *,
        model: str | Choice | None = ...,
        max_angle: float | None = ...,
        cutoff: float | None = ...,
    ) -> None: ...

class Fact(Choice):
    """Direction getter 'fact': FACT."""
    def __init__(
        self,
        *,
        max_angle: float | None = ...,
        cutoff: float | None = ...,
        peaks_between: Literal["nearest", "linear"] | None = ...,
    ) -> None: ...

class Threshold(Choice):
    """Stopping rule 'threshold': ends streamlines where a map is at or below a threshold."""
    def __init__(
        self,
        *,
        stop_map: ImageLike | None = ...,
        stop_threshold: float | None = ...,
        fa_threshold: float | None = ...,
    ) -> None: ...

class Binary(Choice):
    """Stopping rule 'binary': ends them outside a mask."""
    def __init__(
        self,
        *,
        stop_mask: ImageLike | None = ...,
    ) -> None: ...

class ACT(Choice):
    """Stopping rule 'act': ends them in grey matter (valid) or cerebrospinal fluid (invalid)."""
    def __init__(
        self,
        *,
        include_map: ImageLike | None = ...,
        exclude_map: ImageLike | None = ...,
        pve: ImageLike | None = ...,
        pve_wm: ImageLike | None = ...,
        pve_gm: ImageLike | None = ...,
        pve_csf: ImageLike | None = ...,
        pft: bool | None = ...,
        pft_back: float | None = ...,
        pft_front: float | None = ...,
        pft_particles: int | None = ...,
        pft_max_trial: int | None = ...,
        pft_min_wm: float | None = ...,
        backtrack: bool | None = ...,
    ) -> None: ...

class CMC(Choice):
    """Stopping rule 'cmc': ends them at random where there is little white matter, with a valid end in grey matter."""
    def __init__(
        self,
        *,
        include_map: ImageLike | None = ...,
        exclude_map: ImageLike | None = ...,
        pve: ImageLike | None = ...,
        pve_wm: ImageLike | None = ...,
        pve_gm: ImageLike | None = ...,
        pve_csf: ImageLike | None = ...,
        pft: bool | None = ...,
        pft_back: float | None = ...,
        pft_front: float | None = ...,
        pft_particles: int | None = ...,
        pft_max_trial: int | None = ...,
        pft_min_wm: float | None = ...,
        backtrack: bool | None = ...,
    ) -> None: ...

class ACT5(Choice):
    """Stopping rule 'act5': ends them by five tissues, as MRtrix3's ACT."""
    def __init__(
        self,
        *,
        backtrack: bool | None = ...,
        act: ImageLike | None = ...,
        crop_at_gmwmi: bool | None = ...,
        sgm_truncation: Literal["entry", "exit", "minimum", "random", "roulette"] | None = ...,
    ) -> None: ...

class OPDT(Choice):
    """Orientation model 'opdt': orientation probability density transform."""
    def __init__(
        self,
        *,
        sh_order: int | None = ...,
        sm_lambda: float | None = ...,
        min_signal: float | None = ...,
    ) -> None: ...

class CSA(Choice):
    """Orientation model 'csa': constant solid angle ODF."""
    def __init__(
        self,
        *,
        sh_order: int | None = ...,
        sm_lambda: float | None = ...,
        min_signal: float | None = ...,
    ) -> None: ...

class CSD(Choice):
    """Orientation model 'csd': constrained spherical deconvolution."""
    def __init__(
        self,
        *,
        sh_order: int | None = ...,
        response: str | PathLike | Sequence[float] | None = ...,
        fa_response: float | None = ...,
        csd_lambda: str | float | None = ...,
    ) -> None: ...

class Density(Product):
    """Product 'density': map of how many streamlines pass through each voxel."""
    def __init__(
        self,
        path: PathLike,
        *,
        voxel: float | None = ...,
        grid: ImageLike | None = ...,
        kind: Literal["count", "direction", "length", "mean-length", "sample"] | None = ...,
        sample: ImageLike | None = ...,
    ) -> None: ...

class Ends(Product):
    """Product 'ends': map of how many streamlines end in each voxel."""
    def __init__(
        self,
        path: PathLike,
    ) -> None: ...

class Connectome(Product):
    """Product 'connectome': matrices of how many streamlines join two nodes of a parcellation."""
    def __init__(
        self,
        path: PathLike,
        *,
        assignment: Literal["radial", "end-voxel", "reverse"] | None = ...,
        radius: float | None = ...,
        measure: OneOrMore[str] | None = ...,
        sample: OneOrMore[ImageLike] | None = ...,
        nodes: OneOrMore[TableLike] | None = ...,
        pairs: bool | None = ...,
        weights: str | None = ...,
        zero_diagonal: bool | None = ...,
    ) -> None: ...

class SampleTable(Product):
    """Product 'sample_table': table of the values of maps along each streamline."""
    def __init__(
        self,
        path: PathLike,
    ) -> None: ...

class SeedMatrix(Product):
    """Product 'seed_matrix': matrices of how many streamlines from each seed voxel pass other voxels."""
    def __init__(
        self,
        path: PathLike,
        *,
        targets: OneOrMore[ImageLike] | None = ...,
        min_length: float | None = ...,
    ) -> None: ...

class SeedsToTargets(Product):
    """Product 'seeds_to_targets': how many streamlines from each seed voxel reach each of several masks."""
    def __init__(
        self,
        path: PathLike,
        *,
        targets: OneOrMore[ImageLike] | None = ...,
    ) -> None: ...

class VoxelMatrix(Product):
    """Product 'voxel_matrix': matrices of how many streamlines pass both of two voxels."""
    def __init__(
        self,
        path: PathLike,
        *,
        min_length: float | None = ...,
    ) -> None: ...

class Sift2(Product):
    """Product 'sift2': weights of streamlines by SIFT2."""
    def __init__(
        self,
        path: PathLike,
        *,
        basis: str | None = ...,
        act: ImageLike | None = ...,
        proc_mask: ImageLike | None = ...,
        csv: PathLike | None = ...,
        mu: PathLike | None = ...,
        coeffs: PathLike | None = ...,
        linear: bool | None = ...,
        reg_tikhonov: float | None = ...,
        reg_tv: float | None = ...,
        min_td_frac: float | None = ...,
        min_iters: int | None = ...,
        max_iters: int | None = ...,
        min_factor: float | None = ...,
        max_factor: float | None = ...,
        max_coeff_step: float | None = ...,
        min_cf_decrease: float | None = ...,
        fd_scale_gm: bool | None = ...,
        fd_thresh: float | None = ...,
        remove_untracked: bool | None = ...,
        no_dilate_lut: bool | None = ...,
        make_null_lobes: bool | None = ...,
    ) -> None: ...

class Waytotal(Product):
    """Product 'waytotal': number of streamlines."""
    def __init__(
        self,
        path: PathLike,
    ) -> None: ...
