#!/usr/bin/env bash
# What to measure when a GPU is at hand, in order of value, in 12 minutes. Without CUDA, the same at toy sizes.
#
#   benchmarks/gpu.sh [FOLDER]                 logs and results.txt; default: benchmarks/gpu/DATE-CARD-COMMIT
#   FROM=3 TO=5 LIMIT=300 benchmarks/gpu.sh    checks 3 to 5, in 300 seconds
#   PYTHON=.venv/bin/python benchmarks/gpu.sh  another interpreter
#
# Each check prints its figures and a line "CHECK n NAME PASS|FAIL|SKIP". One that fails stops nothing; then the exit code is 1.
set -u
cd "$(dirname "$0")/.." || exit 2
python=${PYTHON:-python}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4} WANDB_MODE=offline
card=$("$python" -c 'import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu")') || exit 2
folder=${1:-benchmarks/gpu/$(date +%Y-%m-%d)-${card// /_}-$(git rev-parse --short HEAD)}
mkdir -p "$folder" || exit 2
began=$SECONDS
failed=0

check() { # NUMBER NAME SECONDS COMMAND...: run a check for at most as long
  local number=$1 name=$2 most=$(($3 * scale)) left=$((${LIMIT:-700} * scale - SECONDS + began)) start=$SECONDS code=0
  shift 3
  if ((number < ${FROM:-1} || number > ${TO:-99})); then return; fi
  if ((left < 8)); then
    echo "CHECK $number $name SKIP no time left"
    return
  fi
  timeout "$((most < left ? most : left))" "$@" >"$folder/$number-$name.log" 2>&1 || code=$?
  grep -E '^RESULT|[0-9]+ (passed|failed|skipped)' "$folder/$number-$name.log"
  if ((code == 0)); then
    echo "CHECK $number $name PASS $((SECONDS - start)) s"
  else
    failed=1
    echo "CHECK $number $name FAIL exit code $code: $(tail -n 1 "$folder/$number-$name.log" | cut -c 1-200)"
  fi
}

probe() { # NUMBER PROBE SECONDS [MODEL...]: a check of gpu_probes.py
  local number=$1 name=$2 most=$3
  shift 3
  check "$number" "$name" "$most" "$python" benchmarks/gpu_probes.py "$name" "$@"
}

if [ "$card" = cpu ]; then
  scale=10 # of the seconds that a check may take
  settings=(data.corpus.size=60 logger=none trainer.accelerator=cpu trainer.max_steps=6 trainer.val_check_interval=3)
else
  scale=1
  settings=(data.corpus.size=2000 logger=none trainer.accelerator=gpu trainer.max_steps=200 trainer.val_check_interval=100)
fi
recipe=quickstart/lstm_bahdanau
run=$folder/run
rm -rf "$run" "$run-1" "$run-2"

read -r -d '' equal <<'PYTHON'
import json, sys
from pathlib import Path
folders = [Path(sys.argv[1]) / "evaluation" / f"validation-{name}" for name in ("cpu", "device")]
found = [json.loads((folder / "metrics.json").read_text()) for folder in folders]
for key in ("bits_per_byte", "token_accuracy"):
    values = [metrics[key] for metrics in found]
    print("RESULT", key, *values)
    assert abs(values[0] - values[1]) < 1e-3, key
PYTHON
both='"$@" seed=1 --output "$0-1" & "$@" seed=2 --output "$0-2" & wait -n && wait -n'  # on one device, at the same time

{
  echo "$card, commit $(git rev-parse HEAD), $(date -u +%Y-%m-%dT%H:%MZ), $("$python" -c 'import torch; print("torch", torch.__version__)')"
  probe 1 speed 60 lstm transformer
  check 2 tests 150 "$python" -m pytest -q -p no:cacheprovider --maxfail=3 -m gpu tests/gpu
  probe 3 trainer 120
  probe 4 speed 80 large_transformer large_lstm
  probe 5 generate 60
  probe 6 graph 60
  probe 7 marian 40
  probe 8 bare_lstm 30
  probe 9 loop 30
  probe 10 scaler 40
  probe 11 encoder_cells 20
  probe 12 sharded 40
  probe 13 compiled 90 transformer
  probe 14 recurrent_kernels 30
  probe 15 attention_mask 20
  probe 16 seeds 40
  probe 17 source_length 30
  probe 18 checkpoint 30
  check 19 train 60 "$python" -m dialog train $recipe "${settings[@]}" --output "$run"
  check 20 evaluate_on_cpu 40 env CUDA_VISIBLE_DEVICES= "$python" -m dialog evaluate "$run" --split validation --name cpu
  check 21 evaluate_on_device 40 "$python" -m dialog evaluate "$run" --split validation --name device
  check 22 equal_metrics 20 "$python" -c "$equal" "$run"
  check 23 exact_resume 150 "$python" -m dialog train $recipe "${settings[@]}" --prove-resume
  check 24 two_runs 60 bash -c "$both" "$run" "$python" -m dialog train $recipe "${settings[@]}"
  probe 25 speed 30 quickstart_lstm quickstart_transformer
  echo "DONE after $((SECONDS - began)) s"
} > >(tee "$folder/results.txt")
exit $failed
