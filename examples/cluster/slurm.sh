#!/bin/sh
#SBATCH --job-name=extrap
#SBATCH --array=1-16
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# 16 workers, one a GPU, on one study; STORAGE is postgresql://…, grpc://… or journal:////SHARED/…,
# with four slashes for a path from the root.
# Two minutes before its time is up Slurm signals the step, not this script: hence srun. Runs in
# training leave checkpoints in .extrap/ of the working directory; submit it again to go on.
# Where nodes can reach nothing, without --storage: --shard "$SLURM_ARRAY_TASK_ID/16", and
# `extrap study merge` afterwards.
exec srun extrap study work studies/metz.py --storage "$STORAGE" --stop-within 110 --quiet
