#!/bin/sh
# Measures and tests tensor parallelism on two GPUs of one machine. `scripts/gpu_tp.sh FOLDER CARD` writes FOLDER/tp-llama-8b-CARD.json.
#
# Some three minutes. The model has random weights of the named shape, so nothing is downloaded.
set -u
folder=$1
card=$2
python=${PYTHON:-python3}
export PYTHONPATH=. PYTHONUNBUFFERED=1
mkdir -p "$folder"

timeout 115 "$python" scripts/tp_steps.py --model dummy:llama-8b --sizes 1,2 --batch 1 --batch 128 \
    --json "$folder/tp-llama-8b-$card.json"
failed=$?
timeout 80 "$python" -m pytest -m gpu tests/test_gpu_tensor_parallel.py -s --durations=5 || failed=1
exit $failed
