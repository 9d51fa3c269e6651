#!/usr/bin/env bash
# Capture the communication graph of one application run with the monitoring built into Open MPI.
#
#   capture.sh NAME OUTPUT_FOLDER      capture one dataset
#   capture.sh --list                  print the names
#
# Writes into OUTPUT_FOLDER:
#   NAME.prof.gz    the monitoring files of all ranks, verbatim, in rank order
#   NAME.log        what the application printed
#   NAME.run.json   the command, the versions, the date; read by tools/provenance.py
#
# Debian packages needed (nothing is installed here): openmpi-bin, gcc, python3; lammps for lammps-*;
# quantum-espresso and quantum-espresso-data for espresso-*.
set -euo pipefail

names=(lammps-lj-64 lammps-lj-512 lammps-salt-64 lammps-droplet-128 espresso-si-64)

if [[ ${1-} == --list ]]; then
    printf '%s\n' "${names[@]}"
    exit 0
fi
if [[ $# -ne 2 ]]; then
    echo "usage: capture.sh NAME OUTPUT_FOLDER | capture.sh --list" >&2
    exit 2
fi
name=$1
inputs=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$2"
output=$(cd "$2" && pwd)

package=lammps
layout="processor grid"
pseudopotential=
case $name in
    lammps-lj-64)
        ranks=64 input=in.lj
        unit="time steps" iterations=100
        application=(lmp -in in.lj -var cells 32 -var steps "$iterations") ;;
    lammps-lj-512)
        ranks=512 input=in.lj
        unit="time steps" iterations=100
        application=(lmp -in in.lj -var cells 32 -var steps "$iterations") ;;
    lammps-salt-64)
        ranks=64 input=in.salt
        unit="time steps" iterations=50
        application=(lmp -in in.salt -var cells 20 -var steps "$iterations") ;;
    lammps-droplet-128)
        ranks=128 input=in.droplet layout="recursive coordinate bisection"
        unit="time steps" iterations=100
        application=(lmp -in in.droplet -var cells 48 -var steps "$iterations") ;;
    espresso-si-64)
        ranks=64 input=si.in package=quantum-espresso layout="8 x 8 blocks of the FFT grid"
        unit="self-consistency iterations" iterations=
        pseudopotential=/usr/share/doc/quantum-espresso/examples/atomic/pseudo-LDA-0.5/Si.pz-vbc.UPF.gz
        application=(pw.x -nyfft 8 -in si.in) ;;
    *)
        echo "capture.sh: unknown dataset '$name'; known: ${names[*]}" >&2
        exit 2 ;;
esac

run=$(mktemp -d "${TMPDIR:-/tmp}/capture.XXXXXX")
trap 'rm -rf "$run"' EXIT
cp "$inputs/$input" "$run/"
if [[ -n $pseudopotential ]]; then
    gunzip -c "$pseudopotential" > "$run/$(basename "$pseudopotential" .gz)"
fi
mkdir "$run/prof"
cd "$run"

# Open MPI refuses to run as root, which is what one is in most containers, unless told twice.
if [[ $(id -u) -eq 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMP_NUM_THREADS=1 LC_ALL=C

# Hundreds of ranks share a few cores: they stay unbound, and sleep while they wait (see sleep_when_idle.c).
gcc -O2 -shared -fPIC -o sleep_when_idle.so "$inputs/sleep_when_idle.c"
# mpirun starts them from one thread: started from several, it loses track of some and hangs at the end.
# On a busy machine it may also miss that a rank has finished in order, and must not end the others for it
# (--enable-recovery). Its exit status then says nothing, so that the output itself is checked for completeness.
command=(mpirun --oversubscribe --bind-to none --enable-recovery -np "$ranks" -x "LD_PRELOAD=./sleep_when_idle.so"
    --mca btl "self,vader" --mca mpi_yield_when_idle 1 --mca odls_base_num_threads 0
    --mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3 --mca pml_monitoring_filename prof/rank
    "${application[@]}")
date=$(date +%F)
start=$(date +%s.%N)
"${command[@]}" < /dev/null > "$output/$name.log" 2>&1 || echo "$name: mpirun exited with status $?" >&2
end=$(date +%s.%N)

if ! grep -qE 'Total wall time|JOB DONE' "$output/$name.log"; then
    echo "$name: the application did not reach its end; see $output/$name.log" >&2
    exit 1
fi
for ((rank = 0; rank < ranks; rank++)); do
    if ! tail -n 1 "prof/rank.$rank.prof" | grep -q '^A2A'; then
        echo "$name: the monitoring output of rank $rank is incomplete" >&2
        exit 1
    fi
    cat "prof/rank.$rank.prof"
done | gzip -9n > "$run/$name.prof.gz"
mv "$run/$name.prof.gz" "$output/"

package_version=$(dpkg-query -W -f '${Version}' "$package")
openmpi_version=$(dpkg-query -W -f '${Version}' openmpi-bin)
python3 - "$name" "$ranks" "$iterations" "$unit" "$package" "$package_version" "$openmpi_version" "$date" \
    "$start" "$end" "$input" "$layout" "${command[*]}" > "$output/$name.run.json" <<'PYTHON'
import json
import os
import platform
import sys

(name, ranks, iterations, unit, package, package_version, openmpi, date, start, end, source, layout,
 command) = sys.argv[1:]
record = {
    "name": name,
    "ranks": int(ranks),
    "iterations": int(iterations) if iterations else None,
    "iteration_unit": unit,
    "package": package,
    "package_version": package_version,
    "openmpi_version": openmpi,
    "machine": f"{os.cpu_count()}-core {platform.machine()} container",
    "layout": layout,
    "input": f"capture/{source}",
    "command": command,
    "date": date,
    "wall_seconds": round(float(end) - float(start), 1),
}
print(json.dumps(record, indent=2))
PYTHON
echo "$name: $(stat -c %s "$output/$name.prof.gz") bytes in $output/$name.prof.gz"
