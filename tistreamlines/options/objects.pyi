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

    Raises
    ------
    ParameterError
        If the centre has not three numbers; the function that uses the sphere raises it.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> ts.Parameters(include=[ts.Sphere((10, -20, 5), radius=8)]).include
    ('10.0,-20.0,5.0,8.0',)
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

    Raises
    ------
    ParameterError
        If an image that is no array has an affine beside its own; the function that uses the image raises it.

    Examples
    --------
    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> left = ts.Mask(np.ones((10, 20, 20), bool), affine=np.diag([2, 2, 2, 1]))
    >>> ts.Parameters(exclude=[left, ts.Mask("cerebellum.nii.gz")]).gives("exclude")
    True
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
    pve_wm: ImageLike | None
    pve_gm: ImageLike | None
    pve_csf: ImageLike | None
    include_map: ImageLike | None
    exclude_map: ImageLike | None
    pve: ImageLike | None
    pft: bool | None
    pft_back: float | None
    pft_front: float | None
    pft_particles: int | None
    pft_max_trial: int | None
    pft_min_wm: float | None
    backtrack: bool | None
    act: ImageLike | None
    sgm: ImageLike | None
    sgm_amyg_hipp: bool | None
    crop_at_gmwmi: bool | None
    sgm_truncation: Literal["entry", "exit", "minimum", "random", "roulette"] | None
    # Model and directions
    like: Literal["dipy"] | None
    preset: Literal["qsirecon-msmt-act", "ukb-connectome", "mrtrix-basic"] | None
    dg: str | Choice | None
    model: str | Choice | None
    sh_order: int | None
    sm_lambda: float | None
    min_signal: float | None
    response: str | PathLike | Sequence[float] | None
    fa_response: float | None
    response_wm: TableLike | None
    response_gm: TableLike | None
    response_csf: TableLike | None
    normalise: bool | None
    csd_shells: Literal["all", "highest"] | None
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
    save_5tt: PathLike | None
    force: bool | None
    bids_out: PathLike | None
    json_stats: PathLike | None
    report: PathLike | None
    rejected: PathLike | None
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

def expand(named: Mapping[str, object]) -> dict[str, object]: ...

def choice(option: str, name: str) -> type[Choice]: ...

def row_options(option: str, name: str) -> list[Field[object]]: ...

def arguments_of(option: str, name: str) -> list[str]: ...

def class_name(option: str, name: str) -> str: ...

class Boot(Choice):
    """Direction getter 'boot': residual bootstrap.

    Parameters
    ----------
    model : {'opdt', 'csa', 'csd', 'msmt'}, default 'csa'
        Orientation model: opdt, orientation probability density transform; csa, constant solid angle ODF; csd,
        constrained spherical deconvolution; msmt, CSD of several tissues.
    sphere : {'default', 'full', 'small'}, default 'default'
        Vertices: DIPY's hemisphere of 362, whole sphere of 724, or hemisphere of 181 directions.
    relative_peak_threshold : float, share, default 0.5
        Peaks below this share of the range of the ODF are ignored.
    min_separation_angle : float, degrees, default 25.0
        Peaks closer than this to a higher peak are ignored.
    max_directions : int, directions, optional
        Greatest number of streamlines from a seed. They follow the highest peaks.
    max_angle : float, degrees, default 30.0
        Greatest angle between two steps. With ptt a step turns by at most this angle times the mean voxel side in
        mm, as in DIPY. With prob it is 30 where few directions give a model a lower order than its own.
    angular_weight : float, weight, default 0.0
        Weight w in ODF * (1 - w + w |cos(angle to the last step)|); 0 turns it off.
    boot_rule : {'dipy', 'cuslines'}, default 'cuslines'
        Draw a new bootstrap sample only if the ODF has no peak (dipy), or until a peak lies within the greatest
        angle (cuslines).
    negative_odf : {'dipy', 'none'}, default 'dipy'
        Whether an ODF without a positive value has one peak, as in DIPY, or none.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Berman JI, Chung S, Mukherjee P, Hess CP, Han ET, Henry RG. Probabilistic streamline q-ball tractography
        using the residual bootstrap. NeuroImage 39, 2008. doi:10.1016/j.neuroimage.2007.08.021

    Examples
    --------
    >>> import tistreamlines as ts
    >>> getter = ts.Boot(max_angle=45)
    >>> ts.Parameters(dg=getter).dg
    'boot'
    """
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
    """Direction getter 'prob': probabilistic.

    Parameters
    ----------
    model : {'opdt', 'csa', 'csd', 'msmt'}, default 'csd'
        Orientation model: opdt, orientation probability density transform; csa, constant solid angle ODF; csd,
        constrained spherical deconvolution; msmt, CSD of several tissues.
    sphere : {'default', 'full', 'small'}, default 'default'
        Vertices: DIPY's hemisphere of 362, whole sphere of 724, or hemisphere of 181 directions.
    relative_peak_threshold : float, share, default 0.5
        Peaks below this share of the range of the ODF are ignored.
    min_separation_angle : float, degrees, default 25.0
        Peaks closer than this to a higher peak are ignored.
    max_directions : int, directions, optional
        Greatest number of streamlines from a seed. They follow the highest peaks.
    max_angle : float, degrees, default 25.0
        Greatest angle between two steps. With ptt a step turns by at most this angle times the mean voxel side in
        mm, as in DIPY. With prob it is 30 where few directions give a model a lower order than its own.
    pmf_threshold : float, share, default 0.2
        Directions with a value below this share of the greatest value are never taken. In the probes of ptt the
        threshold is absolute: values at or below it count as 0.
    pmf_rows : {'sh', 'sampled'}, optional
        Numbers of a voxel: coefficients, evaluated on the sphere at each step, as in DIPY's SHCoeffPmfGen (sh), or
        samples on the sphere, with 0 for negative ones, as in SimplePmfGen (sampled). ptt always stores samples;
        with sh they keep negative values.
    peak_width : float, degrees, default 15.0
        Standard deviation of the lobe of a peak of peaks. The default is about that of a fODF of order 8. With 0, a
        peak is the nearest vertex of sphere alone, and most streamlines end where the peaks of neighbouring voxels
        differ by more than max_angle.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Behrens TEJ, Woolrich MW, Jenkinson M, et al. Characterization and propagation of uncertainty in
        diffusion-weighted MR imaging. Magn Reson Med 50, 2003. doi:10.1002/mrm.10609
    .. [2] Parker GJM, Haroon HA, Wheeler-Kingshott CAM. A framework for a streamline-based probabilistic index of
        connectivity (PICo) using a structural interpretation of MRI diffusion measurements. J Magn Reson Imaging
        18, 2003. doi:10.1002/jmri.10350

    Examples
    --------
    >>> import tistreamlines as ts
    >>> getter = ts.Prob(max_angle=20)
    >>> ts.Parameters(dg=getter).dg
    'prob'
    """
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
    """Direction getter 'det': deterministic.

    Parameters
    ----------
    model : {'opdt', 'csa', 'csd', 'msmt'}, default 'csd'
        Orientation model: opdt, orientation probability density transform; csa, constant solid angle ODF; csd,
        constrained spherical deconvolution; msmt, CSD of several tissues.
    sphere : {'default', 'full', 'small'}, default 'default'
        Vertices: DIPY's hemisphere of 362, whole sphere of 724, or hemisphere of 181 directions.
    relative_peak_threshold : float, share, default 0.5
        Peaks below this share of the range of the ODF are ignored.
    min_separation_angle : float, degrees, default 25.0
        Peaks closer than this to a higher peak are ignored.
    max_directions : int, directions, optional
        Greatest number of streamlines from a seed. They follow the highest peaks.
    max_angle : float, degrees, default 20.0
        Greatest angle between two steps. With ptt a step turns by at most this angle times the mean voxel side in
        mm, as in DIPY. With prob it is 30 where few directions give a model a lower order than its own.
    pmf_threshold : float, share, default 0.1
        Directions with a value below this share of the greatest value are never taken. In the probes of ptt the
        threshold is absolute: values at or below it count as 0.
    pmf_rows : {'sh', 'sampled'}, optional
        Numbers of a voxel: coefficients, evaluated on the sphere at each step, as in DIPY's SHCoeffPmfGen (sh), or
        samples on the sphere, with 0 for negative ones, as in SimplePmfGen (sampled). ptt always stores samples;
        with sh they keep negative values.
    peak_width : float, degrees, default 15.0
        Standard deviation of the lobe of a peak of peaks. The default is about that of a fODF of order 8. With 0, a
        peak is the nearest vertex of sphere alone, and most streamlines end where the peaks of neighbouring voxels
        differ by more than max_angle.
    det_rule : {'max', 'closest'}, default 'max'
        Follow the greatest value within the greatest angle (max), or the closest peak (closest).

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Mori S, Crain BJ, Chacko VP, van Zijl PCM. Three-dimensional tracking of axonal projections in the brain
        by magnetic resonance imaging. Ann Neurol 45, 1999.
        doi:10.1002/1531-8249(199902)45:2<265::AID-ANA21>3.0.CO;2-3
    .. [2] Basser PJ, Pajevic S, Pierpaoli C, Duda J, Aldroubi A. In vivo fiber tractography using DT-MRI data. Magn
        Reson Med 44, 2000. doi:10.1002/1522-2594(200010)44:4<625::AID-MRM17>3.0.CO;2-O

    Examples
    --------
    >>> import tistreamlines as ts
    >>> getter = ts.Det(det_rule="closest")
    >>> ts.Parameters(dg=getter).dg
    'det'
    """
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
    """Direction getter 'ptt': parallel transport.

    Parameters
    ----------
    model : {'opdt', 'csa', 'csd', 'msmt'}, default 'csd'
        Orientation model: opdt, orientation probability density transform; csa, constant solid angle ODF; csd,
        constrained spherical deconvolution; msmt, CSD of several tissues.
    sphere : {'default', 'full', 'small'}, default 'default'
        Vertices: DIPY's hemisphere of 362, whole sphere of 724, or hemisphere of 181 directions.
    relative_peak_threshold : float, share, default 0.5
        Peaks below this share of the range of the ODF are ignored.
    min_separation_angle : float, degrees, default 25.0
        Peaks closer than this to a higher peak are ignored.
    max_directions : int, directions, optional
        Greatest number of streamlines from a seed. They follow the highest peaks.
    max_angle : float, degrees, default 10.0
        Greatest angle between two steps. With ptt a step turns by at most this angle times the mean voxel side in
        mm, as in DIPY. With prob it is 30 where few directions give a model a lower order than its own.
    pmf_threshold : float, share, default 0.1
        Directions with a value below this share of the greatest value are never taken. In the probes of ptt the
        threshold is absolute: values at or below it count as 0.
    pmf_rows : {'sh', 'sampled'}, optional
        Numbers of a voxel: coefficients, evaluated on the sphere at each step, as in DIPY's SHCoeffPmfGen (sh), or
        samples on the sphere, with 0 for negative ones, as in SimplePmfGen (sampled). ptt always stores samples;
        with sh they keep negative values.
    peak_width : float, degrees, default 15.0
        Standard deviation of the lobe of a peak of peaks. The default is about that of a fODF of order 8. With 0, a
        peak is the nearest vertex of sphere alone, and most streamlines end where the peaks of neighbouring voxels
        differ by more than max_angle.
    probe_length : float, mm, default 1.5
        Length of a probe, the arc along which the data support of a candidate is computed.
    probe_radius : float, mm, default 0.0
        Radius of the circle of parallel lines of a probe, if probe_count is above 1.
    probe_quality : int, points, default 7
        Number of points of a probe at which the orientation function is read.
    probe_count : int, lines, default 1
        Number of parallel lines in a probe.
    data_support_exponent : float, power, default 1.0
        Candidates are drawn with a probability proportional to their data support to this power.
    probe_rule : {'dipy', 'tracker', 'paper'}, default 'dipy'
        Rule of the probes. dipy follows the PTTDirectionGetter of DIPY 1.12: probes are too long by a factor of the
        voxel size (mm) squared; the bound of the rejection sampling has the exponent twice, and any candidate
        passes where none has data support. tracker follows DIPY's ptt_tracking, which ends streamlines there. paper
        follows the publication.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Aydogan DB, Shi Y. Parallel transport tractography. IEEE Trans Med Imaging 40, 2021.
        doi:10.1109/TMI.2020.3034038

    Examples
    --------
    >>> import tistreamlines as ts
    >>> getter = ts.Ptt(probe_length=1)
    >>> ts.Parameters(dg=getter).dg
    'ptt'
    """
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
    """Direction getter 'bedpostx': samples of fibres.

    Parameters
    ----------
    max_angle : float, degrees, default 80.0
        Greatest angle between two steps. With ptt a step turns by at most this angle times the mean voxel side in
        mm, as in DIPY. With prob it is 30 where few directions give a model a lower order than its own.
    bedpostx : str or Path, or a list of these, optional
        Samples of fibres: the folder of bedpostX, or its files merged_th1samples, merged_ph1samples,
        merged_f1samples and so on. Without other options, seeds are placed in the folder's nodif_brain_mask, and
        streamlines end outside it.
    min_f : float, share, default 0.01
        Fibres count where their volume fraction is above this.
    use_f : bool, default False
        End a streamline at each step with a probability of one minus the volume fraction of the fibre that is
        followed.
    random_fibre : bool, default False
        Start along any fibre of a sample, with equal probabilities, instead of along the first one.
    modified_euler : bool, default False
        Draw a second direction one step ahead, and step along the mean of both.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Behrens TEJ, Woolrich MW, Jenkinson M, et al. Characterization and propagation of uncertainty in
        diffusion-weighted MR imaging. Magn Reson Med 50, 2003. doi:10.1002/mrm.10609
    .. [2] Behrens TEJ, Johansen-Berg H, Jbabdi S, Rushworth MFS, Woolrich MW. Probabilistic diffusion tractography
        with multiple fibre orientations: What can we gain? NeuroImage 34, 2007.
        doi:10.1016/j.neuroimage.2006.09.018

    Examples
    --------
    >>> import tistreamlines as ts
    >>> getter = ts.Bedpostx(bedpostx="subject.bedpostX")
    >>> ts.Parameters(dg=getter).dg
    'bedpostx'
    """
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
    """Direction getter 'ifod1': iFOD1.

    Parameters
    ----------
    model : {'opdt', 'csa', 'csd', 'msmt'}, default 'csd'
        Orientation model: opdt, orientation probability density transform; csa, constant solid angle ODF; csd,
        constrained spherical deconvolution; msmt, CSD of several tissues.
    max_angle : float, degrees, default 15.0
        Greatest angle between two steps. With ptt a step turns by at most this angle times the mean voxel side in
        mm, as in DIPY. With prob it is 30 where few directions give a model a lower order than its own.
    cutoff : float, amplitude, optional
        FOD amplitude, or length of a peak, below which a direction is not taken.
    power : float, power, optional
        The probability of a step is that of the FOD to this power.
    trials : int, directions, default 1000
        Random directions that are tried for a step; a streamline ends if none is accepted.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Tournier JD, Calamante F, Connelly A. MRtrix: Diffusion tractography in crossing fiber regions. Int J
        Imaging Syst Technol 22, 2012. doi:10.1002/ima.22005

    Examples
    --------
    >>> import tistreamlines as ts
    >>> getter = ts.Ifod1(cutoff=0.1)
    >>> ts.Parameters(dg=getter).dg
    'ifod1'
    """
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
    """Direction getter 'ifod2': iFOD2.

    Parameters
    ----------
    model : {'opdt', 'csa', 'csd', 'msmt'}, default 'csd'
        Orientation model: opdt, orientation probability density transform; csa, constant solid angle ODF; csd,
        constrained spherical deconvolution; msmt, CSD of several tissues.
    max_angle : float, degrees, default 45.0
        Greatest angle between two steps. With ptt a step turns by at most this angle times the mean voxel side in
        mm, as in DIPY. With prob it is 30 where few directions give a model a lower order than its own.
    cutoff : float, amplitude, optional
        FOD amplitude, or length of a peak, below which a direction is not taken.
    power : float, power, optional
        The probability of a step is that of the FOD to this power.
    trials : int, directions, default 1000
        Random directions that are tried for a step; a streamline ends if none is accepted.
    samples : int, samples, default 4
        FOD amplitudes that make the probability of an arc, those at both of its ends among them. An arc has one
        point fewer; the last one is written, see downsample.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Tournier JD, Calamante F, Connelly A. Improved probabilistic streamlines tractography by 2nd order
        integration over fibre orientation distributions. Proc ISMRM 18, 2010.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> getter = ts.Ifod2(samples=5)
    >>> ts.Parameters(dg=getter).dg
    'ifod2'
    """
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
    """Direction getter 'sd_stream': SD_STREAM.

    Parameters
    ----------
    model : {'opdt', 'csa', 'csd', 'msmt'}, default 'csd'
        Orientation model: opdt, orientation probability density transform; csa, constant solid angle ODF; csd,
        constrained spherical deconvolution; msmt, CSD of several tissues.
    max_angle : float, degrees, default 60.0
        Greatest angle between two steps. With ptt a step turns by at most this angle times the mean voxel side in
        mm, as in DIPY. With prob it is 30 where few directions give a model a lower order than its own.
    cutoff : float, amplitude, optional
        FOD amplitude, or length of a peak, below which a direction is not taken.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Tournier JD, Calamante F, Connelly A. MRtrix: Diffusion tractography in crossing fiber regions. Int J
        Imaging Syst Technol 22, 2012. doi:10.1002/ima.22005

    Examples
    --------
    >>> import tistreamlines as ts
    >>> getter = ts.SdStream(cutoff=0.1)
    >>> ts.Parameters(dg=getter).dg
    'sd_stream'
    """
    def __init__(
        self,
        *,
        model: str | Choice | None = ...,
        max_angle: float | None = ...,
        cutoff: float | None = ...,
    ) -> None: ...

class Fact(Choice):
    """Direction getter 'fact': FACT.

    Parameters
    ----------
    max_angle : float, degrees, default 60.0
        Greatest angle between two steps. With ptt a step turns by at most this angle times the mean voxel side in
        mm, as in DIPY. With prob it is 30 where few directions give a model a lower order than its own.
    cutoff : float, amplitude, optional
        FOD amplitude, or length of a peak, below which a direction is not taken.
    peaks_between : {'nearest', 'linear'}, default 'nearest'
        Follow the peaks of the nearest voxel (nearest), as tckgen does, or blend those of the eight voxels around a
        point that are most collinear with the last step (linear).

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Mori S, Crain BJ, Chacko VP, van Zijl PCM. Three-dimensional tracking of axonal projections in the brain
        by magnetic resonance imaging. Ann Neurol 45, 1999.
        doi:10.1002/1531-8249(199902)45:2<265::AID-ANA21>3.0.CO;2-3

    Examples
    --------
    >>> import tistreamlines as ts
    >>> getter = ts.Fact(peaks_between="linear")
    >>> ts.Parameters(dg=getter).dg
    'fact'
    """
    def __init__(
        self,
        *,
        max_angle: float | None = ...,
        cutoff: float | None = ...,
        peaks_between: Literal["nearest", "linear"] | None = ...,
    ) -> None: ...

class Threshold(Choice):
    """Stopping rule 'threshold': ends streamlines where a map is at or below a threshold.

    Parameters
    ----------
    stop_map : str, Path, nibabel image or ndarray, optional
        Streamlines end where this map is at or below its threshold. Its values are not scaled.
    stop_threshold : float, value, optional
        Threshold of stop_map, in the unit of the map.
    fa_threshold : float, FA, default 0.1
        Streamlines end where FA (or the stop map) is at or below this value.

    Raises
    ------
    TypeError
        If there is no such option.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> rule = ts.Threshold(fa_threshold=0.15)
    >>> ts.Parameters(stopping=rule).stopping
    'threshold'
    """
    def __init__(
        self,
        *,
        stop_map: ImageLike | None = ...,
        stop_threshold: float | None = ...,
        fa_threshold: float | None = ...,
    ) -> None: ...

class Binary(Choice):
    """Stopping rule 'binary': ends them outside a mask.

    Parameters
    ----------
    stop_mask : str, Path, nibabel image or ndarray, optional
        Streamlines end outside this mask. The value of the nearest voxel counts; from 0.5 on it is inside.

    Raises
    ------
    TypeError
        If there is no such option.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> rule = ts.Binary(stop_mask="white.nii.gz")
    >>> ts.Parameters(stopping=rule).stopping
    'binary'
    """
    def __init__(
        self,
        *,
        stop_mask: ImageLike | None = ...,
    ) -> None: ...

class ACT(Choice):
    """Stopping rule 'act': ends them in grey matter (valid) or cerebrospinal fluid (invalid).

    Parameters
    ----------
    pve_wm : str, Path, nibabel image or ndarray, optional
        Share of white matter in each voxel. A voxel without any tissue is background, where streamlines may end.
    pve_gm : str, Path, nibabel image or ndarray, optional
        Share of grey matter in each voxel.
    pve_csf : str, Path, nibabel image or ndarray, optional
        Share of cerebrospinal fluid.
    include_map : str, Path, nibabel image or ndarray, optional
        Share of each voxel where streamlines may end: grey matter, and the background.
    exclude_map : str, Path, nibabel image or ndarray, optional
        Share of each voxel where streamlines must not end: cerebrospinal fluid.
    pve : str, Path, nibabel image or ndarray, optional
        Tissue fractions in one 4-D image of three volumes: white matter, grey matter, cerebrospinal fluid. The
        files of FSL's FAST have the opposite order. With fitted, these are the tissues that model msmt fits in the
        same run.
    pft : bool, default False
        Particle filtering: where a streamline ends invalidly or finds no direction, it goes back a little, and
        particles look for another way. The points where the stopping rule ends a streamline are kept, as in DIPY.
    pft_back : float, mm, default 2.0
        How far a streamline goes back before particles are sent out.
    pft_front : float, mm, default 1.0
        How far particles go beyond the point where the streamline stopped.
    pft_particles : int, particles, default 15
        Number of particles.
    pft_max_trial : int, trials, default 20
        How often particles may be sent out for each half of a streamline.
    pft_min_wm : float, share, default 0.0
        Share of white matter that a streamline must have met before it may end in grey matter. Until then it goes
        on.
    backtrack : bool, default False
        Where a streamline ends invalidly, it goes back a little and takes other steps, farther back after every
        third failure, as in MRtrix3's tckgen.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Smith RE, Tournier JD, Calamante F, Connelly A. Anatomically-constrained tractography: improved diffusion
        MRI streamlines tractography through effective use of anatomical information. NeuroImage 62, 2012.
        doi:10.1016/j.neuroimage.2012.06.005

    Examples
    --------
    >>> import tistreamlines as ts
    >>> rule = ts.ACT(pve="pve.nii.gz")
    >>> ts.Parameters(stopping=rule).stopping
    'act'
    """
    def __init__(
        self,
        *,
        pve_wm: ImageLike | None = ...,
        pve_gm: ImageLike | None = ...,
        pve_csf: ImageLike | None = ...,
        include_map: ImageLike | None = ...,
        exclude_map: ImageLike | None = ...,
        pve: ImageLike | None = ...,
        pft: bool | None = ...,
        pft_back: float | None = ...,
        pft_front: float | None = ...,
        pft_particles: int | None = ...,
        pft_max_trial: int | None = ...,
        pft_min_wm: float | None = ...,
        backtrack: bool | None = ...,
    ) -> None: ...

class CMC(Choice):
    """Stopping rule 'cmc': ends them at random where there is little white matter, with a valid end in grey matter.

    Parameters
    ----------
    pve_wm : str, Path, nibabel image or ndarray, optional
        Share of white matter in each voxel. A voxel without any tissue is background, where streamlines may end.
    pve_gm : str, Path, nibabel image or ndarray, optional
        Share of grey matter in each voxel.
    pve_csf : str, Path, nibabel image or ndarray, optional
        Share of cerebrospinal fluid.
    include_map : str, Path, nibabel image or ndarray, optional
        Share of each voxel where streamlines may end: grey matter, and the background.
    exclude_map : str, Path, nibabel image or ndarray, optional
        Share of each voxel where streamlines must not end: cerebrospinal fluid.
    pve : str, Path, nibabel image or ndarray, optional
        Tissue fractions in one 4-D image of three volumes: white matter, grey matter, cerebrospinal fluid. The
        files of FSL's FAST have the opposite order. With fitted, these are the tissues that model msmt fits in the
        same run.
    pft : bool, default False
        Particle filtering: where a streamline ends invalidly or finds no direction, it goes back a little, and
        particles look for another way. The points where the stopping rule ends a streamline are kept, as in DIPY.
    pft_back : float, mm, default 2.0
        How far a streamline goes back before particles are sent out.
    pft_front : float, mm, default 1.0
        How far particles go beyond the point where the streamline stopped.
    pft_particles : int, particles, default 15
        Number of particles.
    pft_max_trial : int, trials, default 20
        How often particles may be sent out for each half of a streamline.
    pft_min_wm : float, share, default 0.0
        Share of white matter that a streamline must have met before it may end in grey matter. Until then it goes
        on.
    backtrack : bool, default False
        Where a streamline ends invalidly, it goes back a little and takes other steps, farther back after every
        third failure, as in MRtrix3's tckgen.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Girard G, Whittingstall K, Deriche R, Descoteaux M. Towards quantitative connectivity analysis: reducing
        tractography biases. NeuroImage 98, 2014. doi:10.1016/j.neuroimage.2014.04.074

    Examples
    --------
    >>> import tistreamlines as ts
    >>> rule = ts.CMC(pve="pve.nii.gz")
    >>> ts.Parameters(stopping=rule).stopping
    'cmc'
    """
    def __init__(
        self,
        *,
        pve_wm: ImageLike | None = ...,
        pve_gm: ImageLike | None = ...,
        pve_csf: ImageLike | None = ...,
        include_map: ImageLike | None = ...,
        exclude_map: ImageLike | None = ...,
        pve: ImageLike | None = ...,
        pft: bool | None = ...,
        pft_back: float | None = ...,
        pft_front: float | None = ...,
        pft_particles: int | None = ...,
        pft_max_trial: int | None = ...,
        pft_min_wm: float | None = ...,
        backtrack: bool | None = ...,
    ) -> None: ...

class ACT5(Choice):
    """Stopping rule 'act5': ends them by five tissues, as MRtrix3's ACT.

    Parameters
    ----------
    pve_wm : str, Path, nibabel image or ndarray, optional
        Share of white matter in each voxel. A voxel without any tissue is background, where streamlines may end.
    pve_gm : str, Path, nibabel image or ndarray, optional
        Share of grey matter in each voxel.
    pve_csf : str, Path, nibabel image or ndarray, optional
        Share of cerebrospinal fluid.
    backtrack : bool, default False
        Where a streamline ends invalidly, it goes back a little and takes other steps, farther back after every
        third failure, as in MRtrix3's tckgen.
    act : str, Path, nibabel image or ndarray, optional
        Five tissues (5TT), or labels or a subject's folder of FreeSurfer, for MRtrix3's ACT.
    sgm : str, Path, nibabel image or ndarray, optional
        Subcortical grey matter, which pve_gm does not tell from the cortex: a mask, shares from 0 to 1, or labels
        of FreeSurfer.
    sgm_amyg_hipp : bool, default False
        Take the amygdalae and hippocampi of labels in act or sgm as subcortical grey matter, not as cortex.
    save_5tt : str or Path, optional
        Write the five tissues of the run, .nii or .nii.gz. They are those of tistreamlines 5tt crop.
    crop_at_gmwmi : bool, default False
        Move ends in cortical grey matter back to its interface with white matter.
    sgm_truncation : {'entry', 'exit', 'minimum', 'random', 'roulette'}, optional
        Where a streamline ends that has passed through subcortical grey matter: before it enters, where it leaves,
        at the least amplitude of the FOD, at any point, or at a point drawn by its amplitude.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Smith RE, Tournier JD, Calamante F, Connelly A. Anatomically-constrained tractography: improved diffusion
        MRI streamlines tractography through effective use of anatomical information. NeuroImage 62, 2012.
        doi:10.1016/j.neuroimage.2012.06.005

    Examples
    --------
    >>> import tistreamlines as ts
    >>> rule = ts.ACT5(act="5tt.nii.gz")
    >>> ts.Parameters(stopping=rule).stopping
    'act5'
    """
    def __init__(
        self,
        *,
        pve_wm: ImageLike | None = ...,
        pve_gm: ImageLike | None = ...,
        pve_csf: ImageLike | None = ...,
        backtrack: bool | None = ...,
        act: ImageLike | None = ...,
        sgm: ImageLike | None = ...,
        sgm_amyg_hipp: bool | None = ...,
        save_5tt: PathLike | None = ...,
        crop_at_gmwmi: bool | None = ...,
        sgm_truncation: Literal["entry", "exit", "minimum", "random", "roulette"] | None = ...,
    ) -> None: ...

class OPDT(Choice):
    """Orientation model 'opdt': orientation probability density transform.

    Parameters
    ----------
    sh_order : int, order, optional
        Order of the spherical harmonics of the model, even.
    sm_lambda : float, weight, default 0.006
        Weight of the Laplace-Beltrami regularisation of the fit.
    min_signal : float, signal, default 1.0
        Signals below this value are raised to it.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Tristán-Vega A, Westin CF, Aja-Fernández S. Estimation of fiber orientation probability density functions
        in high angular resolution diffusion imaging. NeuroImage 47, 2009. doi:10.1016/j.neuroimage.2009.04.049
    .. [2] Tristán-Vega A, Westin CF, Aja-Fernández S. A new methodology for the estimation of fiber populations in
        the white matter of the brain with the Funk-Radon transform. NeuroImage 49, 2010.
        doi:10.1016/j.neuroimage.2009.09.070

    Examples
    --------
    >>> import tistreamlines as ts
    >>> model = ts.OPDT(sh_order=4)
    >>> ts.Parameters(dg="prob", model=model).model
    'opdt'
    """
    def __init__(
        self,
        *,
        sh_order: int | None = ...,
        sm_lambda: float | None = ...,
        min_signal: float | None = ...,
    ) -> None: ...

class CSA(Choice):
    """Orientation model 'csa': constant solid angle ODF.

    Parameters
    ----------
    sh_order : int, order, optional
        Order of the spherical harmonics of the model, even.
    sm_lambda : float, weight, default 0.003
        Weight of the Laplace-Beltrami regularisation of the fit.
    min_signal : float, signal, default 1.0
        Signals below this value are raised to it.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Aganj I, Lenglet C, Sapiro G, Yacoub E, Ugurbil K, Harel N. Reconstruction of the orientation
        distribution function in single- and multiple-shell q-ball imaging within constant solid angle. Magn Reson
        Med 64, 2010. doi:10.1002/mrm.22365

    Examples
    --------
    >>> import tistreamlines as ts
    >>> model = ts.CSA(sh_order=8)
    >>> ts.Parameters(dg="prob", model=model).model
    'csa'
    """
    def __init__(
        self,
        *,
        sh_order: int | None = ...,
        sm_lambda: float | None = ...,
        min_signal: float | None = ...,
    ) -> None: ...

class CSD(Choice):
    """Orientation model 'csd': constrained spherical deconvolution.

    Parameters
    ----------
    sh_order : int, order, optional
        Order of the spherical harmonics of the model, even.
    response : str or Path or sequence of float, default 'auto'
        The signal of a single fibre, csd's response. With fa, it is estimated from voxels of high FA, as DIPY does;
        with tournier, from the voxels most like a single fibre after deconvolution, as MRtrix3's dwi2response
        tournier does; with auto, as with fa, or as with tournier where fewer than 25 voxels have a high FA. FILE is
        MRtrix3's text of zonal harmonics, or has DIPY's numbers: three eigenvalues in mm2/s and the b0 signal. The
        numbers themselves can also be given, with commas.
    fa_response : float, FA, default 0.7
        FA above which a voxel counts as a single fibre with response auto or fa.
    csd_shells : {'all', 'highest'}, default 'all'
        Shells that csd is fitted to. With all, those of lower b-values add what they know of the directions to the
        highest one up to 3500 s/mm2; with highest, it is fitted to that one alone, which response FILE needs.
    csd_lambda : str or float, default 'auto'
        Weight of csd's constraint that fibre orientation distributions are not negative; a low one keeps fibres
        apart that cross at small angles, a high one smooths noise. With auto, it is chosen from the data; DIPY's is
        1.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Tournier JD, Calamante F, Gadian DG, Connelly A. Direct estimation of the fiber orientation density
        function from diffusion-weighted MRI data using spherical deconvolution. NeuroImage 23, 2004.
        doi:10.1016/j.neuroimage.2004.07.037
    .. [2] Tournier JD, Calamante F, Connelly A. Robust determination of the fibre orientation distribution in
        diffusion MRI: non-negativity constrained super-resolved spherical deconvolution. NeuroImage 35, 2007.
        doi:10.1016/j.neuroimage.2007.02.016
    .. [3] Tournier JD, Calamante F, Connelly A. Determination of the appropriate b value and number of gradient
        directions for high-angular-resolution diffusion-weighted imaging. NMR Biomed 26, 2013. doi:10.1002/nbm.3017

    Examples
    --------
    >>> import tistreamlines as ts
    >>> model = ts.CSD(response="tournier")
    >>> ts.Parameters(dg="prob", model=model).model
    'csd'
    """
    def __init__(
        self,
        *,
        sh_order: int | None = ...,
        response: str | PathLike | Sequence[float] | None = ...,
        fa_response: float | None = ...,
        csd_shells: Literal["all", "highest"] | None = ...,
        csd_lambda: str | float | None = ...,
    ) -> None: ...

class MSMT(Choice):
    """Orientation model 'msmt': CSD of several tissues.

    Parameters
    ----------
    sh_order : int, order, optional
        Order of the spherical harmonics of the model, even.
    response_wm : str or Path, optional
        Response of white matter with msmt, MRtrix3's text of zonal harmonics: a row for each shell, b = 0 first.
    response_gm : str or Path, optional
        Response of grey matter with msmt. Without it, response_wm and response_csf are of two tissues.
    response_csf : str or Path, optional
        Response of cerebrospinal fluid with msmt.
    normalise : bool, default True
        Divide the tissues of msmt by a smooth field that makes their sum the same everywhere, as MRtrix3's
        mtnormalise does. Amplitudes of FODs can then be compared between voxels and subjects.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Tournier JD, Calamante F, Gadian DG, Connelly A. Direct estimation of the fiber orientation density
        function from diffusion-weighted MRI data using spherical deconvolution. NeuroImage 23, 2004.
        doi:10.1016/j.neuroimage.2004.07.037
    .. [2] Jeurissen B, Tournier JD, Dhollander T, Connelly A, Sijbers J. Multi-tissue constrained spherical
        deconvolution for improved analysis of multi-shell diffusion MRI data. NeuroImage 103, 2014.
        doi:10.1016/j.neuroimage.2014.07.061
    .. [3] Dhollander T, Raffelt D, Connelly A. Unsupervised 3-tissue response function estimation from single-shell
        or multi-shell diffusion MR data without a co-registered T1 image. ISMRM Workshop on Breaking the Barriers
        of Diffusion MRI, 2016.
    .. [4] Dhollander T, Mito R, Raffelt D, Connelly A. Improved white matter response function estimation for
        3-tissue constrained spherical deconvolution. Proc ISMRM 27, 2019.
    .. [5] Dhollander T, Tabbara R, Rosnarho-Tornstrand J, Tournier JD, Raffelt D, Connelly A. Multi-tissue
        log-domain intensity and inhomogeneity normalisation for quantitative apparent fibre density. Proc ISMRM 29,
        2021.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> model = ts.MSMT(response_wm="wm.txt")
    >>> ts.Parameters(dg="prob", model=model).model
    'msmt'
    """
    def __init__(
        self,
        *,
        sh_order: int | None = ...,
        response_wm: TableLike | None = ...,
        response_gm: TableLike | None = ...,
        response_csf: TableLike | None = ...,
        normalise: bool | None = ...,
    ) -> None: ...

class Density(Product):
    """Product 'density': map of how many streamlines pass through each voxel.

    Parameters
    ----------
    path : str or Path
        Write a map of how many streamlines pass through each voxel, .nii or .nii.gz. A streamline counts once in
        each voxel that it passes. Without output, only maps are written.
    voxel : float, mm, optional
        Side of the voxels of density and ends. They cover the image that is tracked, along its axes.
    grid : str, Path, nibabel image or ndarray, optional
        Image whose grid density and ends have; it may be rotated or sheared.
    kind : {'count', 'direction', 'length', 'mean-length', 'sample'}, default 'count'
        Values of density: the count of the streamlines that pass a voxel, their mean direction as three colours,
        their length within the voxel (mm), the mean length of these streamlines (mm), or the mean of a sampled map
        along them.
    sample : str, Path, nibabel image or ndarray, optional
        Map that is sampled along streamlines for density_kind sample, on any grid.

    Raises
    ------
    TypeError
        If there is no such option.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> product = ts.Density("density.nii.gz", voxel=1)
    >>> ts.Parameters(products=[product]).gives("density")
    True
    """
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
    """Product 'ends': map of how many streamlines end in each voxel.

    Parameters
    ----------
    path : str or Path
        Write a map of how many streamlines end in each voxel, .nii or .nii.gz. Both ends of a streamline count.
        Without output, only maps are written.

    Raises
    ------
    TypeError
        If there is no such option.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> product = ts.Ends("ends.nii.gz")
    >>> ts.Parameters(products=[product]).gives("ends")
    True
    """
    def __init__(
        self,
        path: PathLike,
    ) -> None: ...

class Connectome(Product):
    """Product 'connectome': matrices of how many streamlines join two nodes of a parcellation.

    Parameters
    ----------
    path : pair of an image and the file to write, or a list of these
        Write the matrix of how many streamlines join two nodes of the parcellation LABELS to FILE, .csv, .tsv or
        .npy, with its standard errors and its nodes in files beside it. LABELS may also have the probabilities of a
        node in each volume, among which ends are shared. Without output, no streamline is written.
    assignment : {'radial', 'end-voxel', 'reverse'}, default 'radial'
        Node of connectome for an end: of the nearest voxel within a radius, of the voxel that holds it, or the
        first one on the way back to the middle.
    radius : float, mm, optional
        Greatest distance between an end and its node of connectome.
    measure : str, or a list of these, optional
        The values of connectome for two nodes: count, length, mean-length, inverse-length, inverse-volume; with
        unweighted- before it, those without weights. The first one is written to its FILE, each other one to a file
        beside it. qsirecon stands for QSIRecon's four, within 2 mm, by their names there, as radius2_count.
    sample : str, Path, nibabel image or ndarray, or a list of these, optional
        Write the mean of this map over the streamlines of each edge, too, to *_NAME_mean beside FILE, where NAME is
        that of the map. A streamline has the mean along it, as MRtrix3's tcksample -stat_tck mean computes it:
        weighted by length, and with 0 outside the map. The map can have any grid.
    nodes : str or Path, or a list of these, optional
        Lookup table whose nodes are the rows of connectome, in its order: of FreeSurfer, MRtrix3, FSL (.xml) or
        BIDS (.tsv). One for all parcellations, or one for each.
    pairs : bool, default False
        Also write the two nodes of each streamline, 0 for none, to a file beside each matrix of connectome
        (_pairs.tsv): a line for each streamline, in the order of the tractogram.
    weights : str, optional
        Weigh the streamlines in connectome, density and ends: sift2 for the weights of sift2, or a text file of
        weights in the order of the streamlines, as tcksift2 writes it. All measures and maps are those of weighted
        streamlines, as with -tck_weights_in of tck2connectome and tckmap. With sift2 alone, track writes weights by
        its own FODs beside the tractogram, NAME_weights.txt.
    zero_diagonal : bool, default False
        Set the diagonal of connectome to 0: streamlines with both ends in the same node do not count.

    Raises
    ------
    TypeError
        If there is no such option.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> product = ts.Connectome(("nodes.nii.gz", "connectome.csv"), measure="mean-length")
    >>> ts.Parameters(products=[product]).gives("connectome")
    True
    """
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
    """Product 'sample_table': table of the values of maps along each streamline.

    Parameters
    ----------
    path : str or Path
        Write the values of sample to this table, .csv or .tsv: a line of names, then a row for each streamline.
        Without output, no streamline is written.

    Raises
    ------
    TypeError
        If there is no such option.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> product = ts.SampleTable("samples.csv")
    >>> ts.Parameters(products=[product]).gives("sample_table")
    True
    """
    def __init__(
        self,
        path: PathLike,
    ) -> None: ...

class SeedMatrix(Product):
    """Product 'seed_matrix': matrices of how many streamlines from each seed voxel pass other voxels.

    Parameters
    ----------
    path : pair of an image and the file to write, or a list of these
        Write how many streamlines from each voxel of the mask SEEDS pass each other voxel of it to FILE, .npz or
        .dot, as probtrackx2's matrix1. Without output, no streamline is written.
    targets : str, Path, nibabel image or ndarray, or a list of these, optional
        Mask for seed_matrix, whose voxels are the columns, as in probtrackx2's matrix2. One for all matrices, or
        one for each.
    min_length : float, mm, default 0.0
        Length below which seed_matrix leaves streamlines out, as probtrackx2's distthresh1.

    Raises
    ------
    TypeError
        If there is no such option.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> product = ts.SeedMatrix(("seeds.nii.gz", "matrix.npz"))
    >>> ts.Parameters(products=[product]).gives("seed_matrix")
    True
    """
    def __init__(
        self,
        path: PathLike,
        *,
        targets: OneOrMore[ImageLike] | None = ...,
        min_length: float | None = ...,
    ) -> None: ...

class SeedsToTargets(Product):
    """Product 'seeds_to_targets': how many streamlines from each seed voxel reach each of several masks.

    Parameters
    ----------
    path : pair of an image and the file to write, or a list of these
        Write how many streamlines from each voxel of the mask SEEDS reach each of targets, as probtrackx2's os2t
        and s2tastext: the table FILE, .csv, .tsv or FSL's text matrix_seeds_to_all_targets, and beside it a map for
        each target, seeds_to_NAME.nii.gz. Without output, no streamline is written.
    targets : str, Path, nibabel image or ndarray, or a list of these, optional
        Mask that is a target of seeds_to_targets, on any grid. NAME is that of its file.

    Raises
    ------
    TypeError
        If there is no such option.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> product = ts.SeedsToTargets(("seeds.nii.gz", "targets.csv"), targets=["left.nii.gz", "right.nii.gz"])
    >>> ts.Parameters(products=[product]).gives("seeds_to_targets")
    True
    """
    def __init__(
        self,
        path: PathLike,
        *,
        targets: OneOrMore[ImageLike] | None = ...,
    ) -> None: ...

class VoxelMatrix(Product):
    """Product 'voxel_matrix': matrices of how many streamlines pass both of two voxels.

    Parameters
    ----------
    path : pair of an image and the file to write, or a list of these
        Write how many streamlines pass both of two voxels of MASK, for each pair of them, to FILE, .npz or .dot, as
        probtrackx2's matrix3. Without output, no streamline is written.
    min_length : float, mm, default 0.0
        Length below which voxel_matrix leaves streamlines out, as probtrackx2's distthresh3.

    Raises
    ------
    TypeError
        If there is no such option.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> product = ts.VoxelMatrix(("mask.nii.gz", "matrix.npz"))
    >>> ts.Parameters(products=[product]).gives("voxel_matrix")
    True
    """
    def __init__(
        self,
        path: PathLike,
        *,
        min_length: float | None = ...,
    ) -> None: ...

class Sift2(Product):
    """Product 'sift2': weights of streamlines by SIFT2.

    Parameters
    ----------
    path : pair of an image and the file to write, or a list of these
        Weigh the streamlines by SIFT2, so that their density in each fixel of FOD comes near that of its fibres,
        and write their weights to FILE, .txt, as MRtrix3's tcksift2: in the order of the streamlines. FOD is an
        image of fibre orientation distributions, tracked for those that streamlines follow, or a folder of fixels
        as fod2fixel writes it.
    basis : str, optional
        Basis of the harmonics of sift2: tournier07 of MRtrix3, or DIPY's descoteaux07_legacy.
    act : str, Path, nibabel image or ndarray, optional
        Five-tissue-type (5TT) image, or a segmentation or a folder as for act: a voxel counts for sift2 with the
        square of its share of white matter.
    proc_mask : str, Path, nibabel image or ndarray, optional
        How much each voxel counts for sift2; an image on any grid.
    csv : str or Path, optional
        Table of the iterations of sift2, with the columns of tcksift2 -csv.
    mu : str or Path, optional
        File for the proportionality coefficient mu, as of tcksift2 -out_mu.
    coeffs : str or Path, optional
        File for the coefficients, the logarithms of the weights, as of tcksift2 -out_coeffs.
    linear : bool, default False
        Estimate the weights of sift2 in one pass, without iterations.
    reg_tikhonov : float, factor, default 0.0
        Factor of the regularisation of the coefficients of sift2.
    reg_tv : float, factor, default 0.1
        Factor of the regularisation of distances between the coefficients of sift2 and their mean in each fixel.
    min_td_frac : float, share, default 0.1
        A fixel takes no part in sift2 if the density of its streamlines is less than this part of that of its
        fibres.
    min_iters : int, iterations, default 10
        Fewest iterations of sift2.
    max_iters : int, iterations, default 1000
        Most iterations of sift2.
    min_factor : float, weight, default 0.0
        Weights of sift2 below this become 0.
    max_factor : float, weight, optional
        Greatest weight of sift2.
    max_coeff_step : float, coefficient, default 1.0
        Greatest change of a coefficient in an iteration of sift2.
    min_cf_decrease : float, share, default 2.5e-05
        Iterations of sift2 go on while the cost falls by more than this part of the first one.
    fd_scale_gm : bool, default False
        Lower fibre densities where there is grey matter, as tcksift2 -fd_scale_gm. This needs five tissues.
    fd_thresh : float, density, default 0.0
        Fixels with less fibre density do not count for sift2.
    remove_untracked : bool, default False
        Fixels that no streamline visits do not count for sift2.
    no_dilate_lut : bool, default False
        For sift2, a streamline visits a fixel only where its direction lies within the lobe, as with tcksift2
        -no_dilate_lut; by default, other directions belong to a lobe nearby. Fixels of a folder have the directions
        within 45 degrees.
    make_null_lobes : bool, default False
        For sift2, each voxel has one more fixel, of fibre density 0, which streamlines visit in directions outside
        all lobes, as with tcksift2 -make_null_lobes.

    Raises
    ------
    TypeError
        If there is no such option.

    References
    ----------
    .. [1] Smith RE, Tournier JD, Calamante F, Connelly A. SIFT2: Enabling dense quantitative assessment of brain
        white matter connectivity using streamlines tractography. NeuroImage 119, 2015.
        doi:10.1016/j.neuroimage.2015.06.092

    Examples
    --------
    >>> import tistreamlines as ts
    >>> product = ts.Sift2(("tracked", "weights.txt"))
    >>> ts.Parameters(products=[product]).gives("sift2")
    True
    """
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
    """Product 'waytotal': number of streamlines.

    Parameters
    ----------
    path : str or Path
        Write the number of streamlines, all that are selected, to a file, as probtrackx2's waytotal. Without
        output, no streamline is written.

    Raises
    ------
    TypeError
        If there is no such option.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> product = ts.Waytotal("waytotal")
    >>> ts.Parameters(products=[product]).gives("waytotal")
    True
    """
    def __init__(
        self,
        path: PathLike,
    ) -> None: ...

class Rejected(Product):
    """Product 'rejected': map of where streamlines are dropped, with a volume for each reason.

    Parameters
    ----------
    path : str or Path
        Write a map of where streamlines are dropped, .nii, .nii.gz or .mif, with a volume for each reason: where
        they enter an exclude region, at their seed, or half at each end. The record names the volumes.

    Raises
    ------
    TypeError
        If there is no such option.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> product = ts.Rejected("rejected.nii.gz")
    >>> ts.Parameters(products=[product]).gives("rejected")
    True
    """
    def __init__(
        self,
        path: PathLike,
    ) -> None: ...
