"""DIPY's direction getters, which also keep what they are made of, for :class:`.local_tracking.LocalTracking`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self, Unpack

from dipy import direction as dipys
from dipy.data import default_sphere
from dipy.tracking.direction_getter import DirectionGetter

from ..aliases import Array, Sphere
from ..errors import ParameterError
from ..options.objects import Options
from ..tracking.getters.boot import ATTEMPTS
from . import fields
from .fields import Field
from .keywords import GetterOptions, Model

PEAKS: Options = {"relative_peak_threshold": 0.5, "min_separation_angle": 25.0}  # defaults of DIPY's peak_directions
B_TOL = 20


class FromPmf:
    """Constructors of the getters that follow orientation functions, with the arguments and defaults of DIPY.

    Attributes
    ----------
    DG : str
        Name of the direction getter in the registry.
    OPTIONS : dict
        Its options with DIPY's defaults, which the constructors take as keywords.
    FIXED : dict
        Its options that the class determines.
    """

    DG: ClassVar[str]
    OPTIONS: ClassVar[Options] = PEAKS
    FIXED: ClassVar[Options] = {}
    field: Field

    @classmethod
    def from_pmf(
        cls, pmf: Array, max_angle: float, sphere: Sphere, pmf_threshold: float = 0.1,
        **kwargs: Unpack[GetterOptions],
    ) -> Self:
        """Make a direction getter from values at the vertices of a sphere.

        Parameters
        ----------
        pmf : ndarray, (x, y, z, n)
            Values at the n vertices, in any scale.
        max_angle : float
            Greatest angle between two steps, degrees.
        sphere : Sphere
            DIPY's sphere or hemisphere.
        pmf_threshold : float
            Directions with a value below this share of the greatest value are never taken.
        **kwargs : float
            Options of DIPY's class, e.g. ``relative_peak_threshold``.

        Returns
        -------
        DirectionGetter
            The direction getter.

        Raises
        ------
        ParameterError
            If an option is unknown or not supported.
        InputError
            If an array has the wrong shape or values.
        """
        getter = super().from_pmf(pmf, max_angle, sphere, pmf_threshold=pmf_threshold, **kwargs)  # type: ignore[misc]
        options = cls._options(max_angle, pmf_threshold, kwargs)
        getter.field = fields.of_functions(cls.DG, None, pmf, sphere, None, True, options)
        return getter

    @classmethod
    def from_shcoeff(
        cls, shcoeff: Array, max_angle: float, sphere: Sphere = default_sphere, pmf_threshold: float = 0.1,
        basis_type: str | None = None, legacy: bool = True, sh_to_pmf: bool = False,
        **kwargs: Unpack[GetterOptions],
    ) -> Self:
        """Make a direction getter from spherical harmonic coefficients.

        Parameters
        ----------
        shcoeff : ndarray, (x, y, z, n)
            Coefficients.
        max_angle, sphere, pmf_threshold : float, Sphere, float
            See :meth:`from_pmf`.
        basis_type, legacy : str or None, bool
            Basis of the coefficients; None is descoteaux07.
        sh_to_pmf : bool
            Whether coefficients are sampled on the sphere before tracking, with 0 for negative values.
        **kwargs : float
            See :meth:`from_pmf`.

        Returns
        -------
        DirectionGetter
            The direction getter.

        Raises
        ------
        ParameterError
            If an option is unknown or not supported.
        InputError
            If an array has the wrong shape or values.
        """
        getter = super().from_shcoeff(  # type: ignore[misc]
            shcoeff, max_angle, sphere=sphere, pmf_threshold=pmf_threshold, basis_type=basis_type, legacy=legacy,
            sh_to_pmf=sh_to_pmf, **kwargs,
        )
        options = cls._options(max_angle, pmf_threshold, kwargs)
        options["pmf_rows"] = "sampled" if sh_to_pmf else "sh"
        getter.field = fields.of_functions(cls.DG, shcoeff, None, sphere, basis_type, legacy, options)
        return getter

    @classmethod
    def _options(cls, max_angle: float, pmf_threshold: float, kwargs: GetterOptions) -> Options:
        """Return the options of the method, by their name in the registry."""
        _check_known(kwargs, cls.OPTIONS)
        return {**cls.OPTIONS, **kwargs, **cls.FIXED, "max_angle": max_angle, "pmf_threshold": pmf_threshold}


def _check_known(kwargs: Mapping[str, object], known: Mapping[str, object]) -> None:
    """Check that all options are known here."""
    for name in kwargs:
        if name not in known:
            raise ParameterError(f"{name} is not supported: the options are {', '.join(known)}")


class ProbabilisticDirectionGetter(FromPmf, dipys.ProbabilisticDirectionGetter):
    """DIPY's ``ProbabilisticDirectionGetter``, which draws directions by their probability.

    It is made by ``from_pmf`` or ``from_shcoeff``, and used by :class:`LocalTracking`, here or in DIPY.

    Examples
    --------
    >>> import numpy as np
    >>> from dipy.data import default_sphere
    >>> from tistreamlines.dipy import LocalTracking, ProbabilisticDirectionGetter, ThresholdStoppingCriterion
    >>> pmf = np.tile(default_sphere.vertices[:, 0] ** 20, (20, 5, 5, 1))  # fibres along x
    >>> getter = ProbabilisticDirectionGetter.from_pmf(pmf, 30.0, default_sphere)
    >>> criterion = ThresholdStoppingCriterion(np.ones((20, 5, 5)), 0.2)
    >>> streamlines = LocalTracking(getter, criterion, np.array([[10, 2, 2]]), np.eye(4), 0.5, arch="cpu")
    >>> len(list(streamlines))
    1
    """

    DG = "prob"


class DeterministicMaximumDirectionGetter(FromPmf, dipys.DeterministicMaximumDirectionGetter):
    """DIPY's ``DeterministicMaximumDirectionGetter``, which takes the greatest value within the angle.

    It is made by ``from_pmf`` or ``from_shcoeff``, and used by :class:`LocalTracking`, here or in DIPY.

    Examples
    --------
    >>> import numpy as np
    >>> from dipy.data import default_sphere
    >>> from tistreamlines.dipy import LocalTracking, DeterministicMaximumDirectionGetter, ThresholdStoppingCriterion
    >>> pmf = np.tile(default_sphere.vertices[:, 0] ** 20, (20, 5, 5, 1))  # fibres along x
    >>> getter = DeterministicMaximumDirectionGetter.from_pmf(pmf, 30.0, default_sphere)
    >>> criterion = ThresholdStoppingCriterion(np.ones((20, 5, 5)), 0.2)
    >>> streamlines = LocalTracking(getter, criterion, np.array([[10, 2, 2]]), np.eye(4), 0.5, arch="cpu")
    >>> len(list(streamlines))
    1
    """

    DG = "det"
    FIXED: ClassVar[Options] = {"det_rule": "max"}


class ClosestPeakDirectionGetter(FromPmf, dipys.ClosestPeakDirectionGetter):
    """DIPY's ``ClosestPeakDirectionGetter``, which takes the closest peak.

    It is made by ``from_pmf`` or ``from_shcoeff``, and used by :class:`LocalTracking`, here or in DIPY.

    Examples
    --------
    >>> import numpy as np
    >>> from dipy.data import default_sphere
    >>> from tistreamlines.dipy import LocalTracking, ClosestPeakDirectionGetter, ThresholdStoppingCriterion
    >>> pmf = np.tile(default_sphere.vertices[:, 0] ** 20, (20, 5, 5, 1))  # fibres along x
    >>> getter = ClosestPeakDirectionGetter.from_pmf(pmf, 30.0, default_sphere)
    >>> criterion = ThresholdStoppingCriterion(np.ones((20, 5, 5)), 0.2)
    >>> streamlines = LocalTracking(getter, criterion, np.array([[10, 2, 2]]), np.eye(4), 0.5, arch="cpu")
    >>> len(list(streamlines))
    1
    """

    DG = "det"
    FIXED: ClassVar[Options] = {"det_rule": "closest"}


class PTTDirectionGetter(FromPmf, dipys.PTTDirectionGetter):
    """DIPY's ``PTTDirectionGetter``, of parallel transport tractography [1]_.

    It is made by ``from_pmf`` or ``from_shcoeff``, and used by :class:`LocalTracking`, here or in DIPY.

    References
    ----------
    .. [1] Aydogan DB, Shi Y. Parallel transport tractography. IEEE Trans Med Imaging 40, 2021.
        doi:10.1109/TMI.2020.3034038

    Examples
    --------
    >>> import numpy as np
    >>> from dipy.data import default_sphere
    >>> from tistreamlines.dipy import LocalTracking, PTTDirectionGetter, ThresholdStoppingCriterion
    >>> pmf = np.tile(default_sphere.vertices[:, 0] ** 20, (20, 5, 5, 1))  # fibres along x
    >>> getter = PTTDirectionGetter.from_pmf(pmf, 30.0, default_sphere, probe_length=1.0)
    >>> criterion = ThresholdStoppingCriterion(np.ones((20, 5, 5)), 0.2)
    >>> streamlines = LocalTracking(getter, criterion, np.array([[10, 2, 2]]), np.eye(4), 0.5, arch="cpu")
    >>> len(list(streamlines))
    1
    """

    DG = "ptt"
    OPTIONS: ClassVar[Options] = {
        **PEAKS, "probe_length": 0.5, "probe_radius": 0.0, "probe_quality": 3, "probe_count": 1,
        "data_support_exponent": 1.0,
    }


class BootDirectionGetter(dipys.BootDirectionGetter):
    """DIPY's ``BootDirectionGetter``, of the residual bootstrap [1]_, of its models OPDT and CSA.

    It is made by ``from_data``, and used by :class:`LocalTracking`, here or in DIPY.

    References
    ----------
    .. [1] Berman JI, Chung S, Mukherjee P, Hess CP, Han ET, Henry RG. Probabilistic streamline q-ball tractography
        using the residual bootstrap. NeuroImage 39, 2008. doi:10.1016/j.neuroimage.2007.08.021

    Examples
    --------
    >>> import numpy as np
    >>> from dipy.core.gradients import gradient_table
    >>> from dipy.data import default_sphere
    >>> from dipy.reconst.shm import CsaOdfModel
    >>> from tistreamlines.dipy import BootDirectionGetter, LocalTracking, ThresholdStoppingCriterion
    >>> bvecs = np.concatenate([np.zeros((1, 3)), default_sphere.vertices[:60]])
    >>> gtab = gradient_table(np.repeat([0.0, 1000.0], [1, 60]), bvecs=bvecs)
    >>> signal = 100 * np.exp(-gtab.bvals * (3e-4 + 1.4e-3 * bvecs[:, 0] ** 2))  # of a fibre along x
    >>> getter = BootDirectionGetter.from_data(np.tile(signal, (20, 5, 5, 1)), CsaOdfModel(gtab, 4), 30.0)
    >>> criterion = ThresholdStoppingCriterion(np.ones((20, 5, 5)), 0.2)
    >>> streamlines = LocalTracking(getter, criterion, np.array([[10, 2, 2]]), np.eye(4), 0.5, arch="cpu")
    >>> len(list(streamlines))
    1
    """

    field: Field

    @classmethod
    def from_data(
        cls, data: Array, model: Model, max_angle: float, sphere: Sphere = default_sphere, sh_order: int = 0,
        max_attempts: int = 5, b_tol: float = 20, **kwargs: Unpack[GetterOptions],
    ) -> Self:
        """Make a direction getter from a series and a model.

        Parameters
        ----------
        data : ndarray, (x, y, z, n)
            Diffusion series with b0s and one shell.
        model : OpdtModel or CsaOdfModel
            Model of DIPY, see :func:`.fields.of_model`.
        max_angle : float
            Greatest angle between two steps, degrees.
        sphere : Sphere
            Sphere on which peaks are searched.
        sh_order : int
            Order of the fit from which residuals are drawn, which must be that of the model; 0 is 4, as in DIPY.
        max_attempts, b_tol : int, float
            Must be DIPY's defaults, 5 and 20.
        **kwargs : float
            ``relative_peak_threshold`` and ``min_separation_angle`` (degrees).

        Returns
        -------
        BootDirectionGetter
            The direction getter.

        Raises
        ------
        ParameterError
            If an option or the model is not supported.
        InputError
            If an array has the wrong shape or values.
        """
        if (max_attempts, b_tol) != (ATTEMPTS, B_TOL):
            raise ParameterError(
                f"max_attempts is {max_attempts} and b_tol is {b_tol}: leave them at {ATTEMPTS} and {B_TOL}, the only "
                "values that are supported"
            )
        _check_known(kwargs, PEAKS)
        getter = super().from_data(data, model, max_angle, sphere=sphere, sh_order=sh_order, **kwargs)
        getter.field = fields.of_model(data, model, sphere, sh_order, {**PEAKS, **kwargs, "max_angle": max_angle})
        return getter


def field_of(direction_getter: DirectionGetter) -> Field:
    """Return what a direction getter of this module follows, or raise a ParameterError that says what to import."""
    field = getattr(direction_getter, "field", None)
    if isinstance(field, Field):
        return field
    known = ", ".join(getter.__name__ for getter in (*FromPmf.__subclasses__(), BootDirectionGetter))
    raise ParameterError(
        f"direction_getter is of the kind {type(direction_getter).__name__}, whose arrays cannot be read: make it with "
        f"from_pmf, from_shcoeff or from_data of a class of tistreamlines.dipy, one of {known}"
    )
