#!/usr/bin/env bash
# Measure all that the tables of the README and of docs/speed.md show of one computer, and renew the tables:
#
#     benchmarks/tables.sh two-cores DATA       CPU, beside DIPY, cuslines and MRtrix3; about half an hour
#     benchmarks/tables.sh h200 DATA            CUDA and Vulkan, beside cuslines; about ten minutes
#     benchmarks/tables.sh NAME DATA loops      or commands: one of the two parts
#
# DATA is a folder with dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz. Nothing else should run meanwhile. The results
# are suite-NAME.json (loops) and NAME-files-to-file.json (commands) in benchmarks/results, or in $RESULTS. $REPEAT is the
# number of processes for each warm command, 3 by default.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:?two-cores or h200} data=${2:?DATA} part=${3:-loops commands}
results=${RESULTS:-benchmarks/results}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

suite() { # OPTIONS...
    "${PYTHON:-python3}" benchmarks/suite "$data"/dwi.{nii.gz,bval,bvec} --mask "$data/mask.nii.gz" --out "$out" --quiet "$@"
}
kept() { # FILE
    sed "s#$data/##g; s#$out#FOLDER#g" "$out/results.json" >"$results/$1"
}

case $name in
two-cores) loops=(--archs cpu --peers dipy-threads,cuslines-numba,tckgen --dg boot,prob,det,ptt --nseeds 3000)
    commands=(--archs cpu --peers dipy-threads,tckgen,tckgen-ifod1 --dg boot,prob --nseeds 20000) ;;
h200) loops=(--archs cuda,vulkan --peers cuslines-cuda-patched --dg boot,prob,ptt --nseeds 100000)
    commands=(--archs cuda,vulkan --peers cuslines-cuda-patched --dg boot,prob --nseeds 100000) ;;
*) echo "$name: no such computer: two-cores or h200" >&2 && exit 2 ;;
esac
if [[ $part == *loops* ]]; then
    suite "${loops[@]}" --time-limit 300
    kept "suite-$name.json"
fi
if [[ $part == *commands* ]]; then
    suite "${commands[@]}" --files-to-file cold,warm,cached --repeat "${REPEAT:-3}" --time-limit 300
    kept "$name-files-to-file.json"
fi
[ "$results" != benchmarks/results ] || "${PYTHON:-python3}" docs/generate.py
