#!/bin/sh
# Prints the table of moves for every instruction set of this machine, as Markdown for bench/README.md:
#   bench/tables.sh [PROGRAM [WORDS...]]      PROGRAM is target/release/zellige where nothing is said
# A set that the machine has not got is named. ROUNDS=21 counts more rounds, BUSY="0 2 8" also measures
# what threads are worth beside so many busy processes.
set -eu
program=${1:-target/release/zellige}
[ $# -eq 0 ] || shift
case $(uname -m) in
  aarch64 | arm64) sets="neon baseline" ;;
  *) sets="avx512 avx2 baseline" ;;
esac
for isa in $sets; do
  printf '### %s\n\n' "$isa"
  if ! ZELLIGE_ISA=$isa "$program" bench moves --threads 2 --rounds "${ROUNDS:-7}" "$@"; then
    printf 'Not measured: see above.\n'
  fi
  printf '\n'
done
for neighbours in ${BUSY:-}; do
  printf '### Beside %s busy processes\n\n' "$neighbours"
  "$program" bench moves --busy "$neighbours" --threads 2
  printf '\n'
done
