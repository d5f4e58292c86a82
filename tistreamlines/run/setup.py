"""The session of a run from its options: devices, settings and selection; and the watcher of the run."""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

import numpy as np

from ..backends import fits_soon
from ..devices import CPU, Device, choose, choose_several, numbered_devices
from ..errors import ParameterError
from ..helpers import may_start
from ..options.parameters import Parameters
from ..space.batch import Space
from ..tracking.growth.settings import Settings, bytes_of, steps_of_half, steps_within
from ..tracking.registry import METHODS
from ..tracking.selection.criteria import Criteria
from ..tracking.selection.places import load_region
from ..tracking.selection.regions import ROLES
from ..workers.session import Session
from .log import Log, Watcher
from .needs import limits_at_mask


def devices_of(parameters: Parameters) -> list[Device]:
    """Return the devices that the options name."""
    if parameters.devices is None:
        return [choose(parameters.arch)]
    return choose_several(parameters.arch, parameters.devices)


def arch_of_fits(parameters: Parameters) -> str:
    """Return the arch that fits models: that of the run if it begins soon in this process, else 'cpu'.

    Where Vulkan does not begin soon, CUDA may do so on the same GPU.
    """
    first = choose(parameters.arch)
    if first.on_host or devices_of(parameters) != [first] or parameters.resume:
        return CPU
    if fits_soon(first):
        return first.arch
    others = [] if first.software else numbered_devices("cuda")[:1]
    return next((other.arch for other in others if other.name == first.name and fits_soon(other)), CPU)


def session_on(
    devices: list[Device], parameters: Parameters, note: Callable[[str], object] = lambda _: None
) -> Session:
    """Return a session on the devices of :func:`devices_of`.

    Processes of their own track on several devices, on a device that is not the first of its arch, and in runs that are
    to survive the loss of a GPU.
    """
    survives = parameters.resume and may_start() and not devices[0].on_host and hasattr(socket, "send_fds")
    elsewhere = parameters.devices is not None and devices != [choose(parameters.arch)]
    return Session(devices, note, own_process=survives or elsewhere)


def selection_of(parameters: Parameters, log: Log) -> Criteria:
    """Read the regions of interest, and return which streamlines are kept."""
    sources = {name: getattr(parameters, name) for name in ROLES if getattr(parameters, name)}
    if limits_at_mask(parameters):
        sources["limit_mask"] = (*sources.get("limit_mask", ()), parameters.mask)
    if parameters.stop_when_included and not sources.keys() & {"include", "include_ordered"}:
        raise ParameterError("--stop-when-included needs regions: give --include, or --include-ordered and --one-way")
    regions = {role: [load_region(role, path, log.note, log.warn) for path in paths] for role, paths in sources.items()}
    return Criteria(regions, parameters.stop_when_included, parameters.keep == "valid-ends")


def settings_on(space: Space, parameters: Parameters) -> Settings:
    """Return the settings of the engine for an image.

    Raises
    ------
    ParameterError
        If float32 cannot resolve the steps, or if they are longer than the image.
    """
    sides, arcs = space.voxel_sizes, METHODS[parameters.dg].parts(parameters) > 0
    step_mm, min_mm, max_mm = parameters.step_mm(sides), parameters.min_mm(sides), parameters.max_mm(sides)
    least = float(np.spacing(np.float32(max(space.shape)))) * sides.max()
    most = float(np.linalg.norm(sides * space.shape))
    if not least <= step_mm <= most:
        fault = "too small for" if step_mm < least else "longer than"
        size = f"--step-size {parameters.step_size} is {step_mm:.3g} mm"
        raise ParameterError(f"{size}, {fault} this image: give {least:.2g} to {most:.4g} mm")
    return settings_of(parameters, step_mm, *steps_within(step_mm, min_mm, max_mm, arcs=arcs))


def settings_of(parameters: Parameters, step_mm: float, fewest: int, most: int | None) -> Settings:
    """Return the options of growth and of the device in the engine's units; the bounds of length are in steps."""
    return Settings(
        step_mm=step_mm,
        max_steps=parameters.max_steps or steps_of_half(most),
        fewest_steps=fewest,
        most_steps=most,
        truncate=parameters.too_long == "truncate",
        one_way=parameters.one_way,
        directed=parameters.seed_dynamic is not None,
        rng_seed=parameters.rng_seed,
        exact=parameters.exact,
        threads=parameters.threads,
        chunk_size=parameters.chunk_size,
        memory_limit=bytes_of(parameters.memory_limit),
    )


@contextmanager
def bar_or(watcher: Watcher | None, *, progress: bool) -> Generator[Watcher, None, None]:
    """Show a bar during the block, if the caller wants one, and return it; otherwise, return the watcher.

    Raises
    ------
    ParameterError
        If both are given.
    """
    if not progress:
        yield Watcher() if watcher is None else watcher
        return
    if watcher is not None:
        raise ParameterError("progress and watcher exclude each other: give one of them")
    from .progress import Bar  # which takes time to import

    with Bar() as bar:
        yield bar
