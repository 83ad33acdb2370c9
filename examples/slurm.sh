#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#
# sbatch slurm.sh COMMAND [ARG...] - runs the command once per node, each below "proctor run".
#
# The command starts the ranks of its node, as torchrun does. "proctor run -- srun COMMAND" would not
# work: slurmstepd starts the tasks of srun, so they are no children of proctor.
# Each node has a database of its own, as many hosts must not write one SQLite file on NFS.
set -u

export JOB=slurm-$SLURM_JOB_ID
export RESULTS=$SLURM_SUBMIT_DIR/proctor-$JOB
mkdir -p "$RESULTS"

srun bash -c '
	export PROCTOR_HOME=$RESULTS/node-$SLURM_NODEID
	mkdir -p "$PROCTOR_HOME"
	proctor run --quiet --interval 1 --job "$JOB" --output "$PROCTOR_HOME/report.json" -- "$@"
	status=$?
	proctor export telemetry --job "$JOB" -o "$PROCTOR_HOME/telemetry/"
	exit $status' task "$@"
status=$?

for home in "$RESULTS"/node-*; do
	PROCTOR_HOME=$home proctor report "$JOB" --format md >"$home/report.md"
done
proctor ranks analyze "$RESULTS"/node-*/telemetry >"$RESULTS/ranks.txt"
exit $status
