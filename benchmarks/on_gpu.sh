#!/usr/bin/env bash
# All figures that need a GPU, in one call of about half an hour, or some of them:
#
#     benchmarks/on_gpu.sh DATA OTHER OUT [verify|speeds|versions|fods|regions|files|anatomy|products|bytes ...]
#
# DATA is a folder with dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz; OTHER holds the version to compare with
# (git archive COMMIT tistreamlines benchmarks/archs.py | tar x -C OTHER); OUT receives the JSON files.
# A part that fails does not keep the others from running; the exit code is that of the last one that failed.
set -uo pipefail
data=${1:?DATA} other=${2:?OTHER} out=${3:?OUT}
shift 3
chosen=${*:-verify speeds versions fods regions files anatomy products bytes}
mkdir -p "$out"
failed=0

part() { # NAME COMMAND...
    local name=$1 begun=$SECONDS
    [[ " $chosen " == *" $name "* ]] || return 0
    shift
    "$@" >"$out/$name.txt" 2>&1 || { failed=$? && echo "$name failed ($failed): $(tail -n 1 "$out/$name.txt")"; }
    echo "$name: $((SECONDS - begun)) s"
}

archs=${ARCHS:-cuda,vulkan}
track=(python3 -m tistreamlines)
# the same bits on every device
part verify "${track[@]}" verify --nseeds 2000
# speed of each getter beside its aim, of short and long streamlines, and of cores
part speeds python3 benchmarks/speeds.py "$data" --archs "$archs" --out "$out/speeds.json"
# speed and bits beside the other version, with the threshold rule
part versions python3 benchmarks/versions.py "$other" --archs "$archs" --dgs boot,prob,det,ptt --data "$data" \
    --nseeds 500000 --turns 2 --repeat 12 --out "$out/versions.json"
# an HCP-sized series of 0.9 million voxels fitted within 2 s; the first voxels with the bits of the CPU
part fods python3 benchmarks/fods.py --arch "${archs%%,*}" --voxels 900000 --same 4000 --json "$out/fods.json"
# regions and anatomical rules beside a plain run
part regions python3 benchmarks/regions.py "$data" --archs "$archs" --dgs prob --out "$out/regions.json"
# whole commands, ours and cuslines', each with empty caches and with those of an earlier process
part files python3 benchmarks/suite "$data"/dwi.{nii.gz,bval,bvec} --mask "$data/mask.nii.gz" --nseeds 100000 \
    --archs "$archs" --peers cuslines-cuda-patched --dg boot,prob --files-to-file cold,warm,cached --out "$out/files"
# tissue maps with hard edges, and the other rules, beside DIPY
part anatomy python3 benchmarks/anatomy.py "$data" --rules cmc,act --dgs prob,det --hard --draws 10 \
    --nseeds 20000 --out "$out/anatomy-hard-edges.json"
# matrices and maps while tracking, beside tracking alone: ten million seeds within 1.3 times and 1.5 GB of the host
part products python3 benchmarks/products.py "$data" 10000000 --arch cuda --only alone,ends,density,matrices,all \
    --turns 1 --out "$out/products.json"
# their bytes on all devices
bytes() {
    for arch in ${archs//,/ } cpu; do
        python3 benchmarks/products.py "$data" 200000 --arch "$arch" --only ends,all --turns 1 --out "$out/bytes-$arch.json"
    done
    cat "$out"/bytes-*.json | grep -o '"[a-z0-9_.]*": "[0-9a-f]\{12\}"' | sort | uniq -c
}
part bytes bytes
for name in $chosen; do tail -n 15 "$out/$name.txt"; done
exit "$failed"
