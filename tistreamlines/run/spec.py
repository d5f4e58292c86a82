"""The plan of a run from its options and the headers of its inputs; its kernels depend on nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..aliases import GradientTable
from ..fit.models import BASIS, MODELS, order_of_series
from ..fit.shells import gradients_on_shell, gradients_only, shell_of_models
from ..io.stored_image import Image
from ..option import flag
from ..options.parameters import Parameters
from ..space.batch import Space
from ..space.harmonics import count_of
from ..tracking.engine.kernels import KernelParts
from ..tracking.growth.settings import Settings
from ..tracking.registry import METHODS, PRODUCTS, STOPPING_RULES
from ..tracking.selection.criteria import Criteria
from ..tracking.sources import FITTED, SIGNALS, SOURCES
from ..tracking.tables.inputs import Form, Scheme
from .inputs import Headers
from .products import asked, with_points
from .setup import settings_on


@dataclass(frozen=True)
class Spec:
    """The plan of a run.

    Parameters
    ----------
    getter, rule : the direction getter and the stopping rule, by the names of their rows.
    source, model, order : what is followed, and the model that is fitted with harmonics of an order, if one is.
    form : the form of the getter's input.
    recovery : what helps a half on where it may not end, or nothing.
    shape, voxel_sizes : of the image that is tracked, mm.
    step_mm, fewest_steps, most_steps, most_of_half : step size, and bounds of the steps of a streamline and of a half.
    arch, devices : where streamlines grow, as the options say it.
    outputs : the products besides a tractogram.
    parameters : all options, with the order of the model and the options that follow from it.
    settings : how streamlines are grown.
    """

    getter: str
    rule: str
    source: str
    model: str | None
    order: int | None
    form: Form
    recovery: str
    shape: tuple[int, ...]
    voxel_sizes: tuple[float, ...]
    step_mm: float
    fewest_steps: int
    most_steps: int
    most_of_half: int
    arch: str
    devices: str | None
    outputs: tuple[str, ...]
    parameters: Parameters = field(repr=False, compare=False)
    settings: Settings = field(repr=False, compare=False)

    def table(self) -> dict[str, str]:
        """Return the description as text, with a name for each line."""
        followed = "the series" if self.source == FITTED else flag(self.source)
        model = "" if self.model is None else f", {self.model} of order {self.order}"
        return {
            "direction getter": f"{self.getter}, follows {followed}{model}",
            "numbers per voxel": f"{self.form.count} ({self.form.kind})",
            "stopping rule": f"{self.rule}, {self.recovery}" if self.recovery else self.rule,
            "image": f"{_times(self.shape)} voxels of {_times(self.voxel_sizes)} mm",
            "steps": f"{self.step_mm:.4g} mm; {self.fewest_steps:,} to {self.most_steps:,} in a streamline",
            "other files": ", ".join(map(flag, self.outputs)) or "none",
        }


def describe(parameters: Parameters, headers: Headers) -> Spec:
    """Return what a run does; wait for the gradients if there is a series."""
    gtab = None
    if (series := headers.dwi) is not None:
        gtab = series.gradients.result()
        gtab = gtab if parameters.shells is None else gradients_only(gtab, parameters.shells, series.path)[0]
    image: Image = headers.followed.image if headers.dwi is None else headers.dwi.image
    assert image.affine is not None
    across, deep, high = image.shape[:3]
    space, chosen = Space(image.affine, (across, deep, high)), with_order(parameters, gtab)
    settings = settings_on(space, parameters)
    fewest, most = settings.bounds
    return Spec(
        getter=parameters.dg, rule=parameters.stopping, source=parameters.source, model=parameters.model,
        order=chosen.sh_order, form=_form(chosen, headers, gtab),
        recovery="particles" if parameters.pft else "backtracking" if parameters.backtrack else "",
        shape=space.shape, voxel_sizes=tuple(space.voxel_sizes.tolist()), step_mm=settings.step_mm, fewest_steps=fewest,
        most_steps=most, most_of_half=settings.max_steps, arch=parameters.arch, devices=parameters.devices,
        outputs=tuple(asked(parameters)), parameters=chosen, settings=settings,
    )


def parts_of(spec: Spec, selection: Criteria, *, without_points: bool = False) -> KernelParts | None:
    """Return what the kernels of a run are made of; None if the values of its inputs have to be known for that."""
    rule, sides, chosen = STOPPING_RULES[spec.rule], spec.voxel_sizes, spec.parameters
    if rule.rule is None:
        return None
    scheme = Scheme(spec.form, rule.rule(chosen, sides), rule.in_rows, chosen.sphere, spec.step_mm, sides)
    getter, _ = METHODS[spec.getter].describe(scheme, chosen)
    rows = [PRODUCTS[name] for name in spec.outputs]
    collectors = [(row.of_dropped, None if row.collector is None else row.collector(chosen)) for row in rows]
    products, points = with_points(collectors, without_points=without_points)
    return KernelParts(getter, scheme.rule, spec.settings, selection.filters(), products, points=points)


def _times(numbers: tuple[float, ...]) -> str:
    return " x ".join(f"{number:.4g}" for number in numbers)


def _form(parameters: Parameters, headers: Headers, gtab: GradientTable | None) -> Form:
    """Return the form of the getter's input."""
    if (source := SOURCES.get(parameters.source)) is not None:
        return source.form(headers.followed, parameters)
    if SIGNALS in METHODS[parameters.dg].follows:
        assert gtab is not None
        return Form.of_series(gradients_on_shell(gtab, shell_of_models)[0])
    assert parameters.sh_order is not None
    return Form("sh", count_of(parameters.sh_order), BASIS)


def with_order(
    parameters: Parameters, gtab: GradientTable | None, note: Callable[[str], object] = lambda _: None, path: str = ""
) -> Parameters:
    """Return the options with the order of the model's harmonics, which the number of directions may limit.

    Defaults of the direction getter follow the order.

    Parameters
    ----------
    parameters : all options.
    gtab : gradients of the series that is fitted, if there is one.
    note : receives a message about an order below the model's.
    path : of the series.
    """
    if gtab is None or parameters.model is None:
        return parameters
    method, order = METHODS[parameters.dg], parameters.sh_order
    if order is None:
        residuals = SIGNALS in method.follows  # a direction more than coefficients leaves some
        order, most, directions = order_of_series(parameters, gtab, residuals)
        if order < most:
            note(
                f"{path}: {directions} directions determine harmonics of order {order}, so {flag('sh_order')} is "
                f"{order}, not {most}"
            )
    lower = {} if order >= MODELS[parameters.model].order or parameters.like else method.low_order
    follow = {name: value for name, value in lower.items() if not parameters.gives(name)}
    return parameters.changed(sh_order=order, **follow)
