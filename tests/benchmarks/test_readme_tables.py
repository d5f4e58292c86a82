"""Tables of the README, from the results of several computers."""

from __future__ import annotations

import copy
import re

import pytest
from readme_tables import fastest_table, files_table, throughput_table
from reports import cells, made_up, peer, run


@pytest.fixture
def results():
    return made_up()


def test_throughput_beside_the_fastest_peer(results):
    other = copy.deepcopy(results)
    other["machine"] = {"cpu": "other", "cores": 64, "devices": []}
    other["runs"] = other["runs"][:1]
    other["machine"]["devices"] = [{"arch": "vulkan", "name": "llvmpipe", "software": True}]
    other["runs"][0] |= {"target": "vulkan"}
    text = throughput_table([results, other])
    head = ["machine", "data", "getter", "cpu", "vulkan", "cuda", "fastest peer", "our fastest, times the peer"]
    assert cells(text, "machine") == head
    machine = "NVIDIA H200; AMD EPYC 9V74, 2 cores"
    row = cells(text, machine, "brain, 20,000 seeds", "boot")
    assert row[3:7] == ["0.742", "–", "124", "dipy (1,000 seeds) (0.00520)"]
    ratio = re.fullmatch(r"([\d,]+)", row[7])
    assert float(ratio[1].replace(",", "")) == pytest.approx(124_321 / 5.2, rel=5e-3)
    assert cells(text, machine, "brain, 20,000 seeds", "prob")[6:] == ["dipy (1 thread) (0.162)", "1,074"]
    assert cells(text, "other, 64 cores")[3:] == ["–", "0.742 (software)", "–", "none ran", "–"]
    assert len(text.splitlines()) == 2 + 3


def test_a_peer_of_another_model_is_no_peer(results):
    results["runs"] = [run("boot", "cuda", 1e8), peer("boot", "dipy", 1e4, model="csa")]
    machine = "NVIDIA H200; AMD EPYC 9V74, 2 cores"
    assert cells(throughput_table([results]), machine)[-1] == "none ran"


# -------------------------------------------------------------------------------------------------- whole commands
def whole(target: str, kind: str, seconds: float, repeats: int = 3) -> dict:
    """A row of a result."""
    arch = target if target in ("cpu", "cuda", "vulkan") else ""
    return {
        "case": "brain", "dg": "prob", "model": "csd", "target": target, "arch": arch, "kind": kind, "nseeds": 1000,
        "status": "ok", "reason": "", "seconds": seconds, "repeats": [seconds] * repeats,
    }


def columns(*rows: dict) -> dict[str, str]:
    """The README's line on one machine, by column."""
    head, _, line = files_table([{"schema": 1, "files": list(rows)}]).splitlines()
    return dict(zip(*([cell.strip() for cell in text.strip("|").split("|")] for text in (head, line)), strict=True))


def test_ratios_are_of_warm_to_warm_and_of_cold_to_cold():
    seconds = {"cuda": (4, 3), "vulkan": (5, 2), "cuslines-cuda": (28, 14), "dipy": (24, 24)}
    kinds = ("cold", "warm")
    line = columns(*(whole(name, *row, 1) for name, pair in seconds.items() for row in zip(kinds, pair, strict=True)))
    assert line["cuda"] == "3.00 (4.00 cold)"
    assert line["cuslines-cuda"] == "14.0 (28.0 cold)"
    assert line["dipy"] == "24.0 (24.0 cold)"
    assert line["times as long as ours"] == "7.00 (6.00 cold)"  # 14 / 2, 24 / 4


def test_a_peer_of_an_earlier_result_was_timed_in_its_first_process():
    """It has no row of its own for that; beside it, no warm command is quoted as faster."""
    ours = [whole("cuda", "cold", 4, 1), whole("cuda", "warm", 3)]
    line = columns(*ours, whole("cuslines-cuda", "warm", 28, 1))
    assert (line["cuslines-cuda"], line["times as long as ours"]) == ("28.0 cold", "7.00 cold")
    line = columns(*ours, whole("cuslines-cuda", "warm", 15, 3))  # the median of three is no first process
    assert (line["cuslines-cuda"], line["times as long as ours"]) == ("15.0", "5.00")
    assert "times as long as ours" not in columns(*ours)


def test_the_newest_result_of_a_machine_counts():
    old, new = ({"schema": 1, "created": created, "files": [whole("cuda", "warm", seconds)]}
                for created, seconds in (("2026-01-01", 3), ("2026-02-01", 2)))
    other = {"schema": 1, "files": [{**whole("cuda", "warm", 9), "dg": "det"}]}
    lines = files_table([new, other, old]).splitlines()[2:]
    assert sorted(line.split("|")[-2].strip() for line in lines) == ["2.00", "9.00"]


def test_the_fastest_command_stands_beside_the_fastest_other_program():
    ours = [whole("cuda", "warm", 4), whole("vulkan", "warm", 2), whole("vulkan", "cold", 1)]
    peers = [whole("dipy", "warm", 30), whole("tckgen", "warm", 20), whole("tckgen", "cold", 10)]
    alone = {"schema": 1, "machine": {"cpu": {"name": "without peers"}}, "files": ours}
    _, _, line = fastest_table([{"schema": 1, "files": [*ours, *peers]}, alone]).splitlines()
    assert line.endswith("| 1,000 | 2.00 (vulkan) | 20.0 (tckgen) | 10.0 |")
