"""The direction getters and the models they follow: what each needs, its defaults, and whom to cite."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

# by the short name that tables print
REFERENCES = {
    "Berman 2008": "Berman JI, Chung S, Mukherjee P, Hess CP, Han ET, Henry RG. Probabilistic streamline q-ball "
    "tractography using the residual bootstrap. NeuroImage 39, 2008. doi:10.1016/j.neuroimage.2007.08.021",
    "Behrens 2003": "Behrens TEJ, Woolrich MW, Jenkinson M, et al. Characterization and propagation of uncertainty in "
    "diffusion-weighted MR imaging. Magn Reson Med 50, 2003. doi:10.1002/mrm.10609",
    "Parker 2003": "Parker GJM, Haroon HA, Wheeler-Kingshott CAM. A framework for a streamline-based probabilistic "
    "index of connectivity (PICo) using a structural interpretation of MRI diffusion measurements. J Magn Reson "
    "Imaging 18, 2003. doi:10.1002/jmri.10350",
    "Mori 1999": "Mori S, Crain BJ, Chacko VP, van Zijl PCM. Three-dimensional tracking of axonal projections in the "
    "brain by magnetic resonance imaging. Ann Neurol 45, 1999. "
    "doi:10.1002/1531-8249(199902)45:2<265::AID-ANA21>3.0.CO;2-3",
    "Basser 2000": "Basser PJ, Pajevic S, Pierpaoli C, Duda J, Aldroubi A. In vivo fiber tractography using DT-MRI "
    "data. Magn Reson Med 44, 2000. doi:10.1002/1522-2594(200010)44:4<625::AID-MRM17>3.0.CO;2-O",
    "Aydogan 2021": "Aydogan DB, Shi Y. Parallel transport tractography. IEEE Trans Med Imaging 40, 2021. "
    "doi:10.1109/TMI.2020.3034038",
    "Tristán-Vega 2009": "Tristán-Vega A, Westin CF, Aja-Fernández S. Estimation of fiber orientation probability "
    "density functions in high angular resolution diffusion imaging. NeuroImage 47, 2009. "
    "doi:10.1016/j.neuroimage.2009.04.049",
    "Tristán-Vega 2010": "Tristán-Vega A, Westin CF, Aja-Fernández S. A new methodology for the estimation of fiber "
    "populations in the white matter of the brain with the Funk-Radon transform. NeuroImage 49, 2010. "
    "doi:10.1016/j.neuroimage.2009.09.070",
    "Aganj 2010": "Aganj I, Lenglet C, Sapiro G, Yacoub E, Ugurbil K, Harel N. Reconstruction of the orientation "
    "distribution function in single- and multiple-shell q-ball imaging within constant solid angle. Magn Reson Med "
    "64, 2010. doi:10.1002/mrm.22365",
    "Tournier 2004": "Tournier JD, Calamante F, Gadian DG, Connelly A. Direct estimation of the fiber orientation "
    "density function from diffusion-weighted MRI data using spherical deconvolution. NeuroImage 23, 2004. "
    "doi:10.1016/j.neuroimage.2004.07.037",
    "Tournier 2007": "Tournier JD, Calamante F, Connelly A. Robust determination of the fibre orientation distribution "
    "in diffusion MRI: non-negativity constrained super-resolved spherical deconvolution. NeuroImage 35, 2007. "
    "doi:10.1016/j.neuroimage.2007.02.016",
    "Salmon 2011": "Salmon JK, Moraes MA, Dror RO, Shaw DE. Parallel random numbers: as easy as 1, 2, 3. SC '11, 2011. "
    "doi:10.1145/2063384.2063405",
    "Garyfallidis 2014": "Garyfallidis E, et al. Dipy, a library for the analysis of diffusion MRI data. Front "
    "Neuroinform 8, 2014. doi:10.3389/fninf.2014.00008",
}
ALWAYS = ("Salmon 2011", "Garyfallidis 2014")


@dataclass(frozen=True)
class Model:
    """A model of the signal.

    Attributes
    ----------
    title : what it is, in a few words.
    defaults : of the options that depend on the model.
    references : names in REFERENCES.
    """

    title: str
    defaults: dict[str, Any]
    references: tuple[str, ...]


@dataclass(frozen=True)
class Getter:
    """A way of choosing directions.

    Attributes
    ----------
    title : what it is, in a few words.
    needs, use : what it works on and when to take it, for tables.
    models : those that it can follow.
    defaults : of the options that depend on the getter.
    references : names in REFERENCES.
    oriented : whether it follows an orientation function, so that one from a file does as well as a model's.
    """

    title: str
    needs: str
    use: str
    models: tuple[str, ...]
    defaults: dict[str, Any]
    references: tuple[str, ...]
    oriented: bool = field(default=True, kw_only=True)


MODELS = {
    "opdt": Model(
        "orientation probability density transform", {"sh_order": 4}, ("Tristán-Vega 2009", "Tristán-Vega 2010"),
    ),
    "csa": Model("constant solid angle ODF", {"sh_order": 4}, ("Aganj 2010",)),
    "csd": Model("constrained spherical deconvolution", {"sh_order": 8}, ("Tournier 2004", "Tournier 2007")),
}  # fmt: skip
ANY_MODEL = ("csd", "opdt", "csa")
# as DIPY's probabilistic_tracking and deterministic_tracking have them; ptt_tracking but for the angle
DIPY_PMF = {"model": "csd", "max_angle": 20.0, "relative_peak_threshold": 0.5, "min_separation_angle": 25.0}
GETTERS = {
    "boot": Getter(
        "residual bootstrap", "a series with b0s and one shell",
        "the spread should come from the noise of the measurement itself", ("opdt", "csa"),
        {"model": "opdt", "max_angle": 60.0, "relative_peak_threshold": 0.25, "min_separation_angle": 45.0},
        ("Berman 2008",), oriented=False,
    ),
    "prob": Getter(
        "probabilistic", "a series or an orientation file",
        "all that a voxel's fibres allow should be seen, crossings too", ANY_MODEL, DIPY_PMF,
        ("Behrens 2003", "Parker 2003"),
    ),
    "det": Getter(
        "deterministic", "a series or an orientation file", "the likeliest way alone is wanted, the same each time",
        ANY_MODEL, DIPY_PMF, ("Mori 1999", "Basser 2000"),
    ),
    "ptt": Getter(
        "parallel transport", "a series or an orientation file",
        "smooth ways are wanted, each step judged by what lies ahead", ANY_MODEL, DIPY_PMF | {"max_angle": 10.0},
        ("Aydogan 2021",),
    ),
}  # fmt: skip
ORIENTED = tuple(name for name, getter in GETTERS.items() if getter.oriented)
# options that name a file of orientations, which takes the place of a model
SOURCES = ("sh", "odf", "pmf", "peaks")


def citations(dg: str, model: str | None) -> list[str]:
    """References of a getter, of the model it follows, if any, and of what every run uses."""
    names = [*GETTERS[dg].references, *(MODELS[model].references if model else ()), *ALWAYS]
    return [REFERENCES[name] for name in names]


def table_rows() -> list[tuple[str, ...]]:
    """Name, title, needs, models, use and references of each getter, for tables."""
    return [
        (name, getter.title, getter.needs, ", ".join(getter.models), getter.use, ", ".join(getter.references))
        for name, getter in GETTERS.items()
    ]


def listed(words: Iterable[Any]) -> str:
    """Join alternatives: 'a', 'a or b', 'a, b or c'."""
    *first, last = map(str, words)
    return f"{', '.join(first)} or {last}" if first else last


def varying(name: str) -> str:
    """Say what an option's default is for each getter or model: '60 for boot, 20 for prob or det'."""
    owners: dict[str, list[str]] = {}
    for table in (GETTERS, MODELS):
        for owner, known in table.items():
            if name in known.defaults:
                value = known.defaults[name]
                owners.setdefault(value if isinstance(value, str) else f"{value:g}", []).append(owner)
    return ", ".join(f"{value} for {listed(names)}" for value, names in owners.items())
