#!/bin/sh
# Measures everything that the pages say of a GPU. `make gpu-bench` runs this.
#
# usage: scripts/gpu_bench.sh FOLDER CARD [PART ...]
#
# Writes FOLDER/NAME-CARD.json for each PART: workloads, latency, startup, kernels, profile, ladder. Without any: all of them, some ten minutes.
# Models have random weights of the named shapes, so nothing is downloaded.
set -u
folder=$1
card=$2
shift 2
python=${PYTHON:-python3}
mkdir -p "$folder"

minfer() {
    echo "minfer $*"
    "$python" -m minfer "$@"
}

workloads() {
    minfer bench throughput --workload w1 --shape qwen3-0.6b --json "$folder/w1-$card.json"
    for rows in 64 256; do
        minfer bench throughput --workload w2 --shape tinyllama-1.1b --max-num-seqs $rows --json "$folder/w2-$rows-$card.json"
    done
}

latency() {
    for shape in qwen3-0.6b tinyllama-1.1b llama-8b; do
        longest=2048
        [ $shape = tinyllama-1.1b ] && longest=1024
        minfer bench latency --shape $shape --prompt-len 512 --prompt-len $longest --output-len 256 --json "$folder/latency-$shape-$card.json"
    done
}

startup() {
    minfer bench startup --shape qwen3-0.6b --max-model-len 4096 --json "$folder/startup-$card.json"
}

kernels() {
    minfer bench kernels --json "$folder/kernels-$card.json" --plot "$folder/kernels-$card.svg"
}

profile() {
    minfer bench profile --shape qwen3-0.6b --batch 256 --context 700 --max-num-seqs 256 --max-model-len 4096 \
        --plot "$folder/profile-qwen3-0.6b-256-$card.svg" --json "$folder/profile-qwen3-0.6b-256-$card.json"
    minfer bench profile --shape tinyllama-1.1b --batch 64 --context 300 --json "$folder/profile-tinyllama-1.1b-64-$card.json"
    minfer bench profile --shape tinyllama-1.1b --batch 1 --context 500 --json "$folder/profile-tinyllama-1.1b-1-$card.json"
}

ladder() {
    minfer ladder --workload w2 --shape tinyllama-1.1b --max-num-seqs 64 --slow-requests 64 --resume \
        --json "$folder/ladder-$card.json" --plot "$folder/ladder-$card.svg"
}

for part in ${*:-workloads latency startup kernels profile ladder}; do
    $part
done
