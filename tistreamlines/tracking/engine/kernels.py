"""The kernels of an engine: how its parts make them, and their compilation before there is anything to track."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np

from ...devices import CPU, Device, choose
from ...devices.threads import thread_pool
from ...kernels.stop_reasons import Stop
from ...space.batch import Space
from ..growth.chunk import DirectedSeeds, count_chunk, exclusive_sum, z_order
from ..growth.growth import ROOTS, layout_on, open_kernels
from ..growth.settings import Settings
from ..parts import Getter, ProductKernels, Rule, Selection
from ..products.collector import Collector
from ..products.points.points import Outlines, Points, PointsOnHost
from ..products.points.unpacking import open_unpacker
from ..selection.filters import Filter, Length


@dataclass(frozen=True, eq=False)
class KernelParts:
    """The parts of an engine's kernels, without the values of voxels.

    Parameters
    ----------
    getter, rule : the parts that grow streamlines; the rule's maps on another grid need no values.
    settings, filters : see :class:`.engine.Engine`.
    products : the classes of the products.
    points : whether the points of streamlines are wanted.
    """

    getter: Getter
    rule: Rule
    settings: Settings
    filters: Sequence[Filter] = ()
    products: Sequence[type[Collector]] = ()
    points: bool = True

    def compile(self, device: Device) -> None:
        """Compile all kernels and the functions of the host, as an engine on the device does; the process keeps them.

        Where Taichi's runtime drives the device, kernels are only linked.
        """
        settings = settings_for(self.getter, self.settings)
        judges = filters_of(settings, self.filters)
        layout = layout_on(device, self.getter, self.rule, settings, demand_of(judges))
        batches = (PointsOnHost if device.on_host else Points) if self.points else Outlines
        kernels = partial(open_kernels, device, layout, settings, kernels_of([batches, *self.products]))
        if device.on_host:
            kernels()
            self._compile_functions(device, settings)
        else:  # another compiler than that of the device
            functions = thread_pool("functions", 1).submit(self._compile_functions, device, settings)
            kernels()
            functions.result()

    def digest(self) -> str:
        """Return the SHA-256 of the text of the kernels that grow streamlines, which is the same for all devices."""
        from ...kernels import streamlines
        from ...kernels.products.points import unpack
        from ...linker.interpreted import dialect
        from ...linker.link import link

        settings = settings_for(self.getter, self.settings)
        layout = layout_on(choose(CPU), self.getter, self.rule, settings, demand_of(filters_of(settings, self.filters)))
        roots = [*ROOTS, *([streamlines.judge] if layout.load.has_bits else []), unpack]
        plain = replace(dialect(native=False, bits=32), debugs=False)
        linked = link(roots, plain, layout.source(roots).filling)
        return hashlib.sha256("".join(linked.functions.values()).encode()).hexdigest()

    def _compile_functions(self, device: Device, settings: Settings) -> None:
        """Compile the functions of the host."""
        if self.points:
            open_unpacker(self.getter, self.rule, packed=not device.on_host)
        _call_functions(settings)
        if self.products:
            exclusive_sum(np.zeros(1, np.int64))


def settings_for(getter: Getter, settings: Settings) -> Settings:
    """Return the settings as far as a getter heeds them."""
    if getter.carried:
        settings = replace(settings, exact=True)
    return settings if getter.symmetric else replace(settings, either_sense=False)


def filters_of(settings: Settings, filters: Iterable[Filter]) -> Sequence[Filter]:
    """Return all filters of an engine: that of the length, and others."""
    return Length(*settings.bounds), *filters


def demand_of(filters: Iterable[Filter]) -> Selection:
    """Return what filters demand of streamlines while they grow."""
    return reduce(lambda demands, each: each.demand(demands), filters, Selection())


def kernels_of(products: Sequence[Collector | type[Collector]]) -> ProductKernels:
    """Return what products, or any of their classes, need on a device."""
    return ProductKernels(
        list(dict.fromkeys(root for product in products for root in product.roots)),
        [part for product in products for part in product.parts],
        sum(product.bytes for product in products),
        any(product.takes_dropped for product in products),
    )


def _call_functions(settings: Settings) -> None:
    """Call the compiled functions of the host with a streamline of one step."""
    seeds = np.zeros((1, 3), np.float32)
    started = DirectedSeeds((seeds, 0, None), np.ones(1, np.int32), {}, partial(z_order, seeds))
    state = np.array([[[1, Stop.MAX_LENGTH], [0, Stop.MAX_LENGTH]]], np.int32)
    chunk = replace(started.chunk(), state=state)
    count_chunk(chunk, Length(*settings.bounds).verdicts(chunk))
    chunk.places(1)
    chunk.facts(Space(np.eye(4), (1, 1, 1)))
