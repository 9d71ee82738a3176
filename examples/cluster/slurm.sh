#!/bin/sh
#SBATCH --job-name=extrap
#SBATCH --array=1-16
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@60
#SBATCH --requeue
# 16 workers, one a GPU, on one study; STORAGE is postgresql://…, grpc://… or journal:///SHARED/….
# Where nodes can reach nothing, without --storage: --shard "$SLURM_ARRAY_TASK_ID/16", and
# `extrap study merge` afterwards. Runs in training leave checkpoints in .extrap/ of the working directory when the
# time is over (B: the worker takes the place of this shell); the next job goes on from them.
exec extrap study work studies/metz.py --storage "$STORAGE" --stop-within 50 --quiet
