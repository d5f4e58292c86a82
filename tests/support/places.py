"""Where tests read from: the repository, what tests share, data beside the repository, and software Vulkan drivers."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parents[1]
DATA = ROOT.parent / "shared" / "data"
CROP = DATA / "sherbrooke_crop"
LAVAPIPE = next(iter(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json")), None)  # Debian: mesa-vulkan-drivers
SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")  # Debian: chromium-common
