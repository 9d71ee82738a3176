#!/bin/sh
#SBATCH --job-name=extrap
#SBATCH --ntasks=16
#SBATCH --cpus-per-task=2
#SBATCH --gpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# A Dask scheduler, 16 workers with one GPU each, and the driver of a study, in one job. Submit it in a
# folder that all nodes share; submit it again to resume. Two minutes before the time is up Slurm
# signals the driver alone (B: this process, which becomes the driver), and the runs leave checkpoints.
host="$(hostname)"
port="$((20000 + SLURM_JOB_ID % 20000))"
dask scheduler --host "$host" --port "$port" --no-dashboard &
srun dask worker "tcp://$host:$port" --nthreads 1 --no-dashboard --death-timeout 60 &
exec extrap study run studies/metz.py --on "dask://$host:$port" --checkpoints .extrap/shared \
    --stop-within 100 --quiet
