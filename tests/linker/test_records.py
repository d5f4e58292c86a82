"""Records of values: what a record takes, and the flat names that kernels take."""

from __future__ import annotations

import numpy as np
import pytest
from dialects import reals, run
from link_kernels import Nested, Pair, through

from tistreamlines.kernels.getters import boot, ptt
from tistreamlines.kernels.interpolate import Volume
from tistreamlines.kernels.stopping.row_maps import Threshold
from tistreamlines.linker.lang import Ints, Reals, Record, fields_of, i32, real
from tistreamlines.linker.records import flat_fields, memory, spread


class Longer(Pair):
    """A record that extends another."""

    count: i32
    numbers: Ints


def test_a_record_is_spread_to_the_names_that_kernels_take():
    nested = Nested(pair=Pair(first=3.0, second=4.0), table=np.array([0.5, 0.25]))
    values = spread("nested", nested) | {"out": reals(2)}
    assert list(values)[:3] == [name for name, _ in flat_fields("nested", Nested)]
    assert run("numba32", through, 2, values)["out"].tolist() == [43.5, 43.25]


def test_a_record_has_the_fields_of_the_one_that_it_extends():
    assert list(fields_of(Longer)) == ["first", "second", "count", "numbers"]
    record = Longer(first=1, second=np.float32(2), count=np.int32(3), numbers=np.arange(4))
    assert (record.first, record.count) == (1, 3)
    assert isinstance(record, Pair)
    assert Nested(pair=record, table=np.zeros(1)).pair is record


FIELDS = {"first": 1.0, "second": 2.0, "count": 3, "numbers": np.arange(4)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": None}, r"Longer lacks first"),
        ({"third": 1.0, "fourth": 1.0}, r"Longer has no fourth, third"),
        ({"numbers": np.zeros(4)}, r"Longer\.numbers is ndarray, but Ints is needed"),
        ({"numbers": 0.5}, r"Longer\.numbers is float, but Ints is needed"),
        ({"first": np.zeros(4)}, r"Longer\.first is ndarray, but real is needed"),
        ({"count": 1.5}, r"Longer\.count is float, but i32 is needed"),
        ({"count": Pair(first=1.0, second=2.0)}, r"Longer\.count is Pair, but i32 is needed"),
    ],
)
def test_a_wrong_field_is_named(change, message):
    values = {name: value for name, value in (FIELDS | change).items() if value is not None}
    with pytest.raises(TypeError, match=message):
        Longer(**values)


def test_a_record_within_a_record_must_be_of_its_kind():
    threshold = Threshold(threshold=0.5)
    with pytest.raises(TypeError, match=r"Nested\.pair is Threshold, but Pair is needed"):
        Nested(pair=threshold, table=np.zeros(1))
    with pytest.raises(TypeError, match=r"Nested\.pair is dict, but Pair is needed"):
        Nested(pair={"first": 1.0, "second": 2.0}, table=np.zeros(1))


def test_the_records_of_all_holes_can_be_made():
    """Method, Stopping, Scratch and Volume: each field by its annotation, nested records too."""

    def filled(record: type[Record]) -> Record:
        by_note = {Reals: np.zeros(1, np.float32), Ints: np.zeros(1, np.int32), real: 0.5}
        return record(
            **{
                name: filled(note) if isinstance(note, type) and issubclass(note, Record) else by_note.get(note, 1)
                for name, note in fields_of(record).items()
            }
        )

    for record in (boot.Boot, ptt.Ptt, boot.BootScratch, ptt.PttScratch, Volume, Threshold):
        assert spread("it", filled(record)).keys() == dict(flat_fields("it", record)).keys()
    assert "it_sphere_vertices" in spread("it", filled(boot.Boot))


def test_sizes_stand_for_arrays():
    assert memory("longer", Longer(first=0.0, second=0.0, count=0, numbers=12)) == {"longer_numbers": ("ints", 12)}
