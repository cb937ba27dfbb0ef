#!/bin/bash
# Train and evaluate the runs of a comparison in the tasks of a job array, one GPU each, and write the report:
#
#     sbatch --array=1-6 docs/slurm/compare_array.sh runs/families dailydialog/lstm_bahdanau dailydialog/transformer --seeds 3
#
# The first argument is the comparison folder, the others are those of `compare`. All tasks run the same command: each
# takes a run that no other works on, and one writes the report at the end. All must see the folder and $DIALOG_CACHE.
# Prepare data where there is a network: python -m dialog prepare RECIPE.
#SBATCH --job-name=compare
#SBATCH --ntasks=1
#SBATCH --gpus=1
#SBATCH --cpus-per-task=4
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%A-%a.log

folder=$1
shift

python -m dialog compare "$@" --output "$folder" &
trap 'kill -TERM $!' TERM  # before the time limit: save a checkpoint and end
wait $!
code=$?
if [ $code -ge 128 ]; then
    wait $!  # the trap has ended the first wait
    code=$?
fi
if [ $code -eq 143 ]; then  # stopped by a signal after saving a checkpoint
    scontrol requeue "$SLURM_ARRAY_JOB_ID"_"$SLURM_ARRAY_TASK_ID"
fi
exit $code
