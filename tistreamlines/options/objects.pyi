"""Keywords, and objects beside them. This file is written by ``python docs/generate.py``.

The keywords are the fields of :class:`tistreamlines.Parameters`, which has their defaults and checks their values.
Names that come from a registry are any string here, or an object. None stands for the default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass
from typing import ClassVar, Literal, TypedDict

import numpy.typing as npt

from .. import option
from ..fit.models import Model
from ..option import OneOrMore, PathLike, PointsLike, TableLike
from ..tracking import registry

Row = registry.Method | registry.StoppingRule | registry.Product | Model
MADE: str
KINDS: dict[str, str]
TABLES: dict[str, Mapping[str, Row]]

class Choice:
    """A row of a registry with some of its options, instead of its name.

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
    """The voxels of an image that are at least 0.5, on another grid.

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
BallLike = option.BallLike | Sphere

class ProductOptions(TypedDict, total=False):
    """Options of what a tractogram holds, and of what is made of the streamlines besides."""

    # Output
    sample: OneOrMore[ImageLike] | None
    sample_points: bool | None
    endpoints_only: bool | None
    compress: float | None
    downsample: int | None
    groups: bool | None
    points: Literal["float32", "float16"] | None
    sample_table: PathLike | None
    density: PathLike | None
    density_voxel: float | None
    density_grid: ImageLike | None
    density_kind: Literal["count", "direction", "length", "mean-length", "sample"] | None
    density_sample: ImageLike | None
    ends: PathLike | None
    connectome: OneOrMore[tuple[ImageLike, PathLike]] | None
    connectome_assignment: Literal["radial", "end-voxel", "reverse"] | None
    connectome_radius: float | None
    connectome_measure: OneOrMore[str] | None
    connectome_sample: OneOrMore[ImageLike] | None
    connectome_nodes: OneOrMore[TableLike] | None
    connectome_pairs: bool | None
    weights: str | None
    connectome_zero_diagonal: bool | None
    seed_matrix: OneOrMore[tuple[ImageLike, PathLike]] | None
    seed_matrix_targets: OneOrMore[ImageLike] | None
    seed_matrix_min_length: float | None
    seeds_to_targets: OneOrMore[tuple[ImageLike, PathLike]] | None
    targets: OneOrMore[ImageLike] | None
    voxel_matrix: OneOrMore[tuple[ImageLike, PathLike]] | None
    voxel_matrix_min_length: float | None
    sift2: OneOrMore[tuple[ImageLike, PathLike]] | None
    sift2_basis: str | None
    sift2_act: ImageLike | None
    sift2_proc_mask: ImageLike | None
    sift2_csv: PathLike | None
    sift2_mu: PathLike | None
    sift2_coeffs: PathLike | None
    sift2_linear: bool | None
    sift2_reg_tikhonov: float | None
    sift2_reg_tv: float | None
    sift2_min_td_frac: float | None
    sift2_min_iters: int | None
    sift2_max_iters: int | None
    sift2_min_factor: float | None
    sift2_max_factor: float | None
    sift2_max_coeff_step: float | None
    sift2_min_cf_decrease: float | None
    sift2_fd_scale_gm: bool | None
    sift2_fd_thresh: float | None
    sift2_remove_untracked: bool | None
    sift2_no_dilate_lut: bool | None
    sift2_make_null_lobes: bool | None
    waytotal: PathLike | None

class Options(ProductOptions, total=False):
    """All options of :func:`tistreamlines.track`: those of products, and the others in the order of the help."""

    # Seeds and region
    mask: ImageLike | None
    seed_mask: ImageLike | None
    seed_image: ImageLike | None
    seed_sphere: OneOrMore[BallLike] | None
    seed_gmwmi: ImageLike | None
    seeds: PointsLike | None
    nseeds: int | None
    seeds_per_voxel: int | None
    seed_grid: int | None
    seed_seed: int | None
    shells: str | float | Sequence[float] | None
    bvecs_frame: Literal["auto", "voxel", "fsl"] | None
    seed_dynamic: ImageLike | None
    seed_dynamic_basis: str | None
    seed_round: int | None
    seed_surface: OneOrMore[TableLike] | None
    seeds_per_vertex: int | None
    surface_direction: Literal["free", "normal", "inward"] | None
    surface_space: Literal["auto", "scanner", "tkras"] | None
    stopping: str | Choice | None
    stop_map: ImageLike | None
    stop_threshold: float | None
    fa_threshold: float | None
    stop_mask: ImageLike | None
    include_map: ImageLike | None
    exclude_map: ImageLike | None
    pve: ImageLike | None
    pve_wm: ImageLike | None
    pve_gm: ImageLike | None
    pve_csf: ImageLike | None
    pft: bool | None
    pft_back: float | None
    pft_front: float | None
    pft_particles: int | None
    pft_max_trial: int | None
    pft_min_wm: float | None
    backtrack: bool | None
    act: ImageLike | None
    crop_at_gmwmi: bool | None
    sgm_truncation: Literal["entry", "exit", "minimum", "random", "roulette"] | None
    # Model and directions
    like: Literal["dipy"] | None
    dg: str | Choice | None
    model: str | Choice | None
    sh_order: int | None
    sm_lambda: float | None
    min_signal: float | None
    response: str | PathLike | Sequence[float] | None
    fa_response: float | None
    csd_lambda: str | float | None
    sphere: Literal["default", "full", "small"] | None
    relative_peak_threshold: float | None
    min_separation_angle: float | None
    max_directions: int | None
    pmf_threshold: float | None
    pmf_rows: Literal["sh", "sampled"] | None
    det_rule: Literal["max", "closest"] | None
    probe_length: float | None
    probe_radius: float | None
    probe_quality: int | None
    probe_count: int | None
    data_support_exponent: float | None
    probe_rule: Literal["dipy", "tracker", "paper"] | None
    cutoff: float | None
    peaks_between: Literal["nearest", "linear"] | None
    power: float | None
    trials: int | None
    samples: int | None
    angular_weight: float | None
    boot_rule: Literal["dipy", "cuslines"] | None
    negative_odf: Literal["dipy", "none"] | None
    min_f: float | None
    use_f: bool | None
    random_fibre: bool | None
    modified_euler: bool | None
    # Orientations from a file, instead of a model
    peak_width: float | None
    sh: ImageLike | None
    sh_basis: Literal[
        "descoteaux07", "descoteaux07_legacy", "tournier07", "tournier07_legacy", "descoteaux07_full",
        "descoteaux07_legacy_full", "tournier07_full", "tournier07_legacy_full",
    ] | None
    sh_frame: Literal["scanner", "voxel"] | None
    odf: ImageLike | None
    pmf: ImageLike | None
    peaks: ImageLike | None
    peaks_frame: Literal["auto", "scanner", "voxel"] | None
    asymmetric: bool | None
    bedpostx: OneOrMore[PathLike] | None
    # Growth
    max_angle: float | None
    step_size: str | float | None
    max_steps: int | None
    min_length: str | float | None
    max_length: str | float | None
    too_long: Literal["drop", "truncate"] | None
    one_way: bool | None
    keep: Literal["all", "valid-ends"] | None
    rng_seed: int | None
    # Regions of interest and selection
    include: OneOrMore[ImageLike] | None
    exclude: OneOrMore[ImageLike] | None
    include_ordered: OneOrMore[ImageLike] | None
    limit_mask: OneOrMore[ImageLike] | None
    stop_when_included: bool | None
    ends_in: OneOrMore[ImageLike] | None
    select: int | None
    max_seeds: int | None
    time_limit: float | None
    # Output
    force: bool | None
    bids_out: PathLike | None
    json_stats: PathLike | None
    report: PathLike | None
    # Running
    part: str | None
    resume: bool | None
    arch: Literal["auto", "metal", "cuda", "amdgpu", "vulkan", "cpu"] | None
    compiler: Literal["auto", "taichi", "quadrants", "forge"] | None
    devices: str | None
    exact: bool | None
    threads: int | None
    chunk_size: int | None
    memory_limit: float | None
    cache_dir: PathLike | None
    shared_cache: bool | None
    # objects that stand for several options
    products: Sequence[Product] | None

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
