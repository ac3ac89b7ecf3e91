#!/usr/bin/env bash
# What a GPU says in two minutes: are moves right, which variants of kernels are fastest, and the tables.
#
#   bash bench/gpu_short.sh OUT
#
# Needs the package `zellige` on PYTHONPATH, and machine code of candidates in out/chosen and out/kernels
# (see gpu_kernels.py). Every part has a limit of its own, and writes into OUT what it found as it goes.
set -u
cd "$(dirname "$0")/.." || exit 2
OUT=$1
mkdir -p "$OUT"
begun=$SECONDS
part() {
  local name=$1 limit=$2
  shift 2
  timeout "$limit" python -u "$@" >"$OUT/$name.txt" 2>&1
  echo "== $name: status $?, at $((SECONDS - begun)) s"
}

# The kernels of the tables are compiled while random pairs are checked.
python bench/gpu.py --prepare >"$OUT/prepare.txt" 2>&1 &
ahead=$!
part check 45 bench/gpu.py --check --cases 320 --seconds 28 --workers 14 --before docs/gpu-results.md --json "$OUT/check.json" --report "$OUT/check.md"
tail -n 6 "$OUT/check.txt"
# Nothing else runs while something is measured.
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 $ahead 2>/dev/null && sleep 1; done
kill $ahead 2>/dev/null
wait $ahead
part kernels 45 bench/gpu_kernels.py out/chosen out/kernels --seconds 36 --rounds 5 --json "$OUT/kernels.json"
sed -n '/^chosen/,$p' "$OUT/kernels.txt" | cut -c 1-182
part measure 62 bench/gpu.py --measure --rounds 9 --seconds 50 --before docs/gpu-results.md --json "$OUT/results.json" --report "$OUT/results.md" \
  --compiled 'restickify|f32 -> f16|copy of a view|f64|4095x1000|1,0,3,2,4'
grep ' us ' "$OUT/measure.txt" | cut -c 1-150
tail -n 8 "$OUT/measure.txt"
