"""Run the commands of the pages as they are written, each page or block in a folder of its own.

    python docs/commands.py [--only PAGE] [--list]

The pages use files of a reader, such as ``dwi.nii.gz`` or ``wmfod.mif``: ``material.py`` makes small ones of the same
names. A page of STEPS is followed from its begin to its end in one folder; elsewhere, each block begins anew. A preset
selects fewer streamlines. What cannot run on this computer is listed with the reason. The exit code is 1 if a command
failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the tests import this file
from material import BRAIN, NAMES, SERIES, make_material

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))))
# pages that are followed from begin to end, and the files of the reader that they begin with
STEPS = {
    "docs/debugging.md": SERIES, "docs/fods.md": SERIES, "docs/getting-started.md": NAMES, "docs/guides/dwi.md": NAMES,
    "docs/guides/mrtrix.md": SERIES, "docs/long-runs.md": NAMES, "docs/tutorial.md": SERIES, "docs/viewer.md": NAMES,
}
ON_A_BRAIN = {"docs/tutorial.md"}  # whose regions are those of a brain, and not of the phantom
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`(tistreamlines [^`]+)`")
# what a command needs that this computer may lack -> whether it is there
NEEDS = {
    r"^pip |^python -m venv|^\. |^pytest|^ruff|^mkdocs|^\.ci/": ("sets up an environment of its own", lambda: False),
    r"sbatch|SLURM": ("needs SLURM", lambda: shutil.which("sbatch")),
    r"--tissues fods|--pve fitted": ("needs a series of several shells", lambda: False),
    r"\$SUBJECTS_DIR": ("needs a subject of FreeSurfer", lambda: "SUBJECTS_DIR" in os.environ),
    r"^5ttgen fsl": ("needs FSL", lambda: shutil.which("fast")),
    r"^(mr|dwi|tensor|sh2peaks|tck)\w* |\.mif\b": ("needs MRtrix3", lambda: shutil.which("mrconvert")),
    r"^dwi2response": ("needs the scripts of MRtrix3", lambda: shutil.which("dwi2response")),
    r"--arch cuda|--devices": ("needs a GPU of NVIDIA", lambda: _present("cuda")),
    r"--arch amdgpu": ("needs a GPU of AMD", lambda: _present("amdgpu")),
    r"--arch metal": ("needs a GPU of Apple", lambda: _present("metal")),
    r"\.\./shared": ("needs data that are not in the repository", BRAIN.is_dir),
    r"--fetch": ("needs the network", lambda: False),
    r"^ssh ": ("needs another computer", lambda: False),
    r"/TOKEN/": ("needs a live page", lambda: False),
    r"nipype": ("needs Nipype", lambda: False),
    r"^tistreamlines batch": ("needs several subjects", lambda: False),
}
SERVES, SERVED_SECONDS = re.compile(r"^tistreamlines view (?!.* -o )"), 20
LIMIT_SECONDS = 3 * 3600
SELECTS_MANY, FEWER = re.compile(r"--preset qsirecon-msmt-act"), " --select 2000"  # instead of ten million streamlines
# a command that is only named, without what it needs
NAMED = re.compile(
    r"^tistreamlines (?!devices$|verify$)[\w ]+$|^tistreamlines view --live$|"
    r"^tistreamlines track (?!.*(-o |--citations))"
)


@dataclass(frozen=True)
class Step:
    """A command of a page, and the folder that it has in common with others."""

    page: str
    folder: str
    command: str

    @property
    def reason(self) -> str | None:
        """Why it cannot run here; None if it can."""
        if self.page in ON_A_BRAIN and not BRAIN.is_dir():
            return "needs data that are not in the repository"
        for pattern, (reason, there) in NEEDS.items():
            if re.search(pattern, self.command) and not there():
                return reason
        return None


def _present(arch: str) -> bool:
    from tistreamlines.devices import list_devices

    return any(device.arch == arch and device.available for device in list_devices())


def steps(page: str) -> Iterator[Step]:
    """Commands of a page in the order of its blocks, then those in its running text that have arguments."""
    text = (ROOT / page).read_text(encoding="utf-8")
    name = page.replace("/", "-").removesuffix(".md")
    blocks = [body.replace("\\\n", " ") for language, body in BLOCK.findall(text) if language in ("", "bash", "sh")]
    for number, body in enumerate(blocks):
        folder = name if page in STEPS else f"{name}-{number}"
        script = "#!/bin/bash" in body
        lines = [body] if script else [part for line in body.splitlines() for part in line.split(" && ")]
        for line in lines:
            if command := (line if script else line.partition("  #")[0]).strip():
                yield Step(page, folder, command)
    spans = SPAN.findall(re.sub(BLOCK, "", text))
    for number, command in enumerate(dict.fromkeys(" ".join(span.split()) for span in spans)):
        if not NAMED.match(command):
            yield Step(page, name if page in STEPS else f"{name}-text-{number}", command)


def inputs(step: Step) -> list[str]:
    """Files and folders of the reader that a command names."""
    words = shlex.split(step.command, comments=True)
    names = {name for name in NAMES for word in words if word == name or word.startswith(f"{name}/")}
    if "dwi.nii.gz" in names:  # a command finds the gradients beside the series
        names |= {"dwi.bval", "dwi.bvec"}
    return sorted(names & STEPS.get(step.page, NAMES))


def run(step: Step, folder: Path) -> tuple[int, str]:
    """Run a command in a folder; return its exit code and what it printed."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = step.command + FEWER * bool(SELECTS_MANY.search(step.command))
    process = subprocess.Popen(
        ["bash", "-ec", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )
    serves = SERVES.match(step.command) is not None
    try:
        printed, _ = process.communicate(timeout=SERVED_SECONDS if serves else LIMIT_SECONDS)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
        printed, _ = process.communicate()
        code = 0 if serves and process.returncode in (0, 130, -signal.SIGINT) else 124
    return code, printed


def follow(all_steps: list[Step], top: Path, material: Path) -> list[tuple[Step, int, str]]:
    """Run commands one after the other, and print a line for each; return those that failed."""
    failed, places = [], {}
    for step in all_steps:
        place = places.setdefault(step.folder, top / step.folder)
        place.mkdir(parents=True, exist_ok=True)
        if step.reason is not None:
            print(f"skipped  {step.page}: {step.command.splitlines()[0]}  ({step.reason})", flush=True)
            continue
        if step.command.startswith("cd "):
            places[step.folder] = place / step.command.removeprefix("cd ")
            continue
        for name in inputs(step):
            if not (place / name).exists() and not _written(step, name):
                source = (BRAIN if step.page in ON_A_BRAIN else material) / name
                copy = shutil.copytree if source.is_dir() else shutil.copy
                copy(source, place / name)
        begun = time.perf_counter()
        code, printed = run(step, place)
        print(f"{code:7}  {step.page}: {step.command}  ({time.perf_counter() - begun:.1f} s)", flush=True)
        if code:
            print(printed[-2000:], flush=True)
            failed.append((step, code, printed))
    return failed


def _written(step: Step, name: str) -> bool:
    """Whether a command writes a file of this name."""
    return re.search(rf"(-o|--density|tckgen \S+) {re.escape(name)}(\s|$)", step.command) is not None


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the commands of the pages as they are written.")
    parser.add_argument("--only", action="append", metavar="PAGE", help="a page, such as docs/tutorial.md")
    parser.add_argument("--list", action="store_true", help="print the commands, and why some cannot run here")
    chosen = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # commands in the background of a shell ignore Ctrl-C
    all_steps = [step for page in PAGES if not chosen.only or page in chosen.only for step in steps(page)]
    if chosen.list:
        for step in all_steps:
            print(f"{step.page}: {step.command}  {inputs(step)}  {step.reason or ''}")
        return 0
    with tempfile.TemporaryDirectory(prefix="pages-") as folder:
        material = Path(folder) / "material"
        if BRAIN.is_dir():
            (Path(folder) / "shared").symlink_to(BRAIN.parents[1])
        make_material(material, {name for step in all_steps if step.reason is None for name in inputs(step)})
        failed = follow(all_steps, Path(folder), material)
    print(f"{len(all_steps)} commands, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
