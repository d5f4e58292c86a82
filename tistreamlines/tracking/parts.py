"""The parts that grow streamlines: what a getter, a rule, a selection and a recovery are, and how halves lie in memory.

Each is what kernels are linked with (:mod:`tistreamlines.linker.parts`): the stages of ``kernels/growth.py`` that it
provides, those that it leaves out being None, and the constants that it has in common with all of its kind. The
constants of one getter are the fields of its own class, see ``tracking/getters``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..kernels.getters.fod import no_fluid
from ..kernels.halves import HALVES_A_PAGE, IN_A_ROW, Halves, Seeds
from ..kernels.stop_reasons import KEPT
from ..kernels.stopping.act5 import nothing_along
from ..linker.lang import Func, Record, Stage
from ..linker.parts import Arrays, Filled, Load, Part, Source, host
from ..linker.records import INTS, REALS, memory, spread, team_memory
from ..space.sphere import round_up


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Row(Part):
    """The row of a voxel: what the getter reads, and at its end the maps of the stopping rule.

    Parameters
    ----------
    row_chunks : length, in units of 32 reals.
    stop_channel, stop_channels : place and number of the maps.
    """

    row_chunks: int
    stop_channel: int
    stop_channels: int

    @classmethod
    def of(cls, width: int, maps: int) -> Row:
        """Return a row of ``width`` reals, a multiple of 32, that ends with so many maps."""
        return cls(row_chunks=width // 32, stop_channel=width - maps, stop_channels=maps)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Getter(Part):
    """A direction getter with its tables: it chooses the direction of each step.

    Parameters
    ----------
    method : the kernels' record of its tables.
    scratch : the record of its team memory.
    state : record of the numbers that a half carries from step to step, besides its point.
    row : what is read of a voxel.
    begin, read, set_out, load_state, store_state, look_ahead, choose, move : see the holes of ``kernels/growth.py``.
    move_as_chosen : ``move`` for the step that has just been chosen; by default the same.
    drop_dead_end, postpone, fall_due, drops_dead_end : see ``kernels/getters/ptt.py``.
    note_step_again : notes what a step that is taken again does not tell.
    along, sharpness : what rules that cut streamlines ask, see ``kernels/stopping/act5.py``.
    code_bits : bits of a step's code.
    carried : number of reals in which a state is stored; 0 if the code of the last step gives it.
    arc : parts of a step, with a point at the end of each.
    symmetric : 1 if a direction stands for its opposite, too.
    most_directions : greatest number of initial directions of a seed.
    aimed : whether it seeks the initial direction near a given one.
    laid_out_abreast : whether the host lays out 32 halves together.
    read_by_lanes : whether each lane reads separate rows, which may then lie interleaved.
    shares : arrays of team memory that may lie within another one, see :class:`tistreamlines.linker.parts.Source`.
    often_read : flat names of arrays, the most read first, which a GPU may copy to the shared memory of a block.
    """

    method: Record
    scratch: type[Record] = Record
    state: type[Record]
    row: Row
    begin: Func
    read: Func
    set_out: Stage
    load_state: Stage | None = None
    store_state: Stage | None = None
    look_ahead: Stage | None = None
    choose: Func
    move: Stage
    move_as_chosen: Stage | None = None
    drops_dead_end: int = 0
    drop_dead_end: Stage | None = None
    postpone: Stage | None = None
    fall_due: Stage | None = None
    note_step_again: Func | None = None
    along: Func = nothing_along
    sharpness: float = 0.0
    code_bits: int
    carried: int = 0
    arc: int = 1
    symmetric: int = 1
    most_directions: int = host(default=1)
    aimed: bool = host(default=False)
    laid_out_abreast: bool = host(default=False)
    read_by_lanes: bool = host(default=False)
    shares: Mapping[str, tuple[str, int]] = host(default_factory=dict)
    often_read: tuple[str, ...] = host(default=())

    def filling(self) -> dict[str, Filled]:
        """Return what fills holes and constants; see :meth:`tistreamlines.linker.parts.Part.filling`."""
        return super().filling() | {"move_as_chosen": self.move_as_chosen or self.move}

    def count_step(self) -> tuple[int, int] | None:
        """Return a lower bound of the bytes read and the operations done for a step; None if it is not known."""
        return None


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Recovery(Part):
    """Help for a half past an invalid end; without arguments, there is none.

    Parameters
    ----------
    recovery : record of its team memory.
    load_recovery, reconsider, recover, store_recovery : see the holes of ``kernels/growth.py``.
    for_recovery : number of reals that a half keeps for it.
    takes_back : whether it takes steps back.
    in_turn : whether a backward half grows when its forward half has ended.
    kept_points : one bit for each stop reason: 1 if the point that it ends a half at is kept.
    """

    recovery: type[Record] = Record
    load_recovery: Stage | None = None
    reconsider: Stage | None = None
    recover: Stage | None = None
    store_recovery: Stage | None = None
    for_recovery: int = 0
    takes_back: bool = host(default=False)
    in_turn: bool = host(default=False)
    kept_points: int = host(default=KEPT)

    def team_memory(self, getter: Getter) -> Arrays:
        """Return kind and size of each array in team memory, by flat name."""
        return team_memory("recovery", self.recovery, self, getter)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Rule(Part):
    """A stopping rule with its tables: it decides where a half ends.

    Parameters
    ----------
    stopping : the kernels' record of its tables.
    classify : the reason to stop at a point.
    memory : record of its memory of the points of a half.
    load_memory, remember, conclude, store_memory : stages of rules that remember points.
    crop, note_point : stages of rules that move ends within their last segments.
    fluid_at, shuns_fluid : for rules that know where fluid is, see ``kernels/getters/ifod2.py``.
    for_rule : number of reals that a half keeps for it.
    maps : number of its maps on another grid.
    crops : 1 if ends may lie within their last segments.
    cut : where a half is cut back to that has left subcortical grey matter.
    reads_voxels : whether ``classify`` reads rows of voxels, which may not lie interleaved then.
    takes_back, in_turn : as of :class:`Recovery`.
    recovery : what helps a half on where the rule does not accept its end.
    """

    stopping: Record
    classify: Func
    memory: type[Record] = Record
    load_memory: Stage | None = None
    remember: Stage | None = None
    conclude: Stage | None = None
    store_memory: Stage | None = None
    crop: Stage | None = None
    note_point: Stage | None = None
    fluid_at: Func = no_fluid
    shuns_fluid: int = 0
    for_rule: int = 0
    maps: int = 0
    crops: int = 0
    cut: int = 0
    reads_voxels: bool = host(default=False)
    takes_back: bool = host(default=False)
    in_turn: bool = host(default=False)
    recovery: Recovery = host(default_factory=Recovery)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Selection(Part):
    """Demands on streamlines while they grow; without arguments, there are none.

    Parameters
    ----------
    filter : the kernels' record of the demands on points.
    bits_at : bits of a point, see ``kernels/selection/regions.py``.
    load_bits, look, confine, add_point, stand, leave_point, store_bits : stages of ``kernels/selection/bits.py``.
    has_bits : 1 if points have bits.
    more : further words of bits.
    collects : 1 if points that a half leaves count.
    in_vain : one bit for each stop reason: 1 if no streamline is accepted whose forward half ends for it.
    in_turn : as of :class:`Recovery`.
    """

    filter: Record = field(default_factory=Record)
    bits_at: Func | None = None
    load_bits: Stage | None = None
    look: Stage | None = None
    confine: Stage | None = None
    add_point: Stage | None = None
    stand: Stage | None = None
    leave_point: Stage | None = None
    store_bits: Stage | None = None
    has_bits: int = 0
    more: int = 0
    collects: int = 1
    in_vain: int = 0
    in_turn: bool = host(default=False)


@dataclass(frozen=True)
class ProductKernels:
    """The needs of products on a device.

    Parameters
    ----------
    roots : kernels that they run.
    parts : what fills further holes and constants of these.
    bytes : memory besides the buffers of a chunk.
    in_turn : whether the second half of a streamline has to wait for the first one.
    """

    roots: Sequence[Func] = ()
    parts: Sequence[Part] = ()
    bytes: int = 0
    in_turn: bool = False


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Layout(Part):
    """How halves grow and lie in memory, which follows from the other parts together.

    Parameters
    ----------
    getter, rule, selection : the other parts; the recovery is the rule's.
    point, words : reals and words that a half keeps.
    paged : 1 if codes of many halves share a page of memory.
    gathers : 1 if each lane reads separate rows at once, as threads of a GPU do.
    interleaved : rows that lie interleaved, number by number: 8 or 1.
    directed : 1 if each seed has a given direction.
    one_way, truncates, in_turn, takes_back, kept_points, abreast : see ``kernels/halves.py`` and ``kernels/growth.py``.
    """

    getter: Getter = host()
    rule: Rule = host()
    selection: Selection = host()
    point: int
    words: int
    paged: int = 0
    gathers: int = 0
    interleaved: int = 1
    directed: int = 0
    one_way: int = 0
    truncates: int = 0
    in_turn: int = 0
    takes_back: int = 0
    kept_points: int = KEPT
    abreast: int = 0

    @classmethod
    def of(cls, getter: Getter, rule: Rule, selection: Selection | None = None, **how: int) -> Layout:
        """Return the layout of these parts; ``how`` are its fields that do not follow from them."""
        selection, recovery = selection or Selection(), rule.recovery
        in_turn = rule.in_turn or recovery.in_turn or selection.in_turn or how.get("truncates", 0)
        how = {"in_turn": int(in_turn), "takes_back": int(rule.takes_back or recovery.takes_back)} | how
        return cls(
            getter=getter, rule=rule, selection=selection, kept_points=recovery.kept_points,
            point=3 + getter.carried + rule.for_rule + recovery.for_recovery, words=2 + getter.drops_dead_end, **how,
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts, with which kernels that work on halves are linked."""
        return self.getter, self.rule, self.selection, self.rule.recovery, self

    @property
    def scratch(self) -> Arrays:
        """Type and size of each array of team memory, by the name of the kernels' argument."""
        getter = self.getter
        if not isinstance(getter.scratch, type):
            raise TypeError(f"scratch of {type(getter).__name__} is an object: give the class of the record")
        return {**team_memory("scratch", getter.scratch, getter), **self.rule.recovery.team_memory(getter)}

    def source(self, roots: Sequence[Func], parts: Sequence[Part] = ()) -> Source:
        """Return kernels that are linked with the parts.

        Parameters
        ----------
        roots : kernels that are run by name.
        parts : what fills further constants and holes.
        """
        values = spread("method", self.getter.method)
        read = {name: np.asarray(values[name]) for name in self.getter.often_read}
        tables = {name: (REALS if array.dtype.kind == "f" else INTS, array.size) for name, array in read.items()}
        return Source(roots, (*self.parts, *parts), self.scratch, self.getter.shares, tables, self.load)

    @property
    def load(self) -> Load:
        """The numbers that kernels hold of a half."""
        return Load(self.getter.carried > 0, self.rule.recovery.for_recovery > 0, self.selection.has_bits > 0)

    @property
    def together(self) -> int:
        """Of how many streamlines arrays hold a multiple; see :func:`tistreamlines.kernels.halves.code_place`."""
        return HALVES_A_PAGE // 2 if self.paged else 1

    @property
    def codes_a_word(self) -> int:
        """Codes of steps that are packed in a word."""
        return 32 // self.getter.code_bits

    def of_seed(self) -> Arrays:
        """Return kind and elements of the buffers that have room for each seed, by flat name."""
        most = self.getter.most_directions
        return memory("seeds", Seeds(points=3, counts=1, peaks=most, most=most)) | {"slot": (INTS, 1)}

    def of_streamline(self, max_steps: int) -> Arrays:
        """Return the same for each streamline, whose halves have at most so many steps."""
        bits, crops = self.selection, self.rule.crops
        steps = round_up(max_steps, IN_A_ROW) if self.paged else max_steps
        halves = Halves(
            seed=1, branch=1, initial=1, first=self.takes_back, point=2 * self.point, state=4, codes=2 * steps,
            visited=2 * self.words * bits.has_bits, more=2 * (bits.more + 1) if bits.more else 0, before=12 * crops,
            cropped=2 * crops,
        )
        return memory("halves", halves) | {"verdict": (INTS, bits.has_bits)}

    def returned(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return flat name and shape of the results of each ended streamline, by name.

        See :class:`tistreamlines.tracking.growth.chunk.Chunk`.
        """
        carries = self.getter.carried > 0
        values: list[tuple[str, str, bool | int, tuple[int, ...]]] = [
            ("state", "halves_state", True, (2, 2)), ("verdict", "verdict", self.selection.has_bits, ()),
            ("initial", "halves_initial", carries, ()), ("first", "halves_first", carries and self.takes_back, ()),
            ("cropped", "halves_cropped", self.rule.crops, (2,)),
        ]
        return {name: (array, shape) for name, array, needed, shape in values if needed}
