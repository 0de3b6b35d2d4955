#!/bin/sh
# Creates a virtual environment and installs minfer in it, with what its tests need. `make setup` runs this.
#
# usage: scripts/setup.sh PYTHON VENV
#
# With an NVIDIA GPU, and on macOS, pip's default PyTorch is the right one. Elsewhere it would bring gigabytes of CUDA, so the
# versions in constraints-cpu.txt are asked for, and the CPU builds' own index is asked first if it answers.
set -eu
python=$1
venv=$2
cpu_index=https://download.pytorch.org/whl/cpu

fail() {
    echo "setup: $*" >&2
    exit 1
}

command -v "$python" >/dev/null || fail "there is no $python; install Python 3.11 or newer, or name one: make setup PYTHON3=..."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "minfer needs Python 3.11 or newer, and $python is $("$python" -V 2>&1); name another one: make setup PYTHON3=python3.12"

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv --clear "$venv" || {
        rm -rf "$venv"
        fail "$python cannot create a virtual environment; on Debian and Ubuntu: apt install python3-venv"
    }
fi

install() {
    "$venv/bin/python" -m pip install --disable-pip-version-check "$@" -e ".[dev]"
}

if [ "$(uname -s)" = Darwin ] || nvidia-smi -L >/dev/null 2>&1; then
    install
    exit
fi
# The timer ends the question after 5 s in all, however many addresses there are to try.
ask="import os, threading, urllib.request
timer = threading.Timer(5, os._exit, [1])
timer.daemon = True
timer.start()
urllib.request.urlopen('$cpu_index/torch/')"
if "$venv/bin/python" -c "$ask" 2>/dev/null; then
    index="--extra-index-url $cpu_index"
else
    index=
fi
# shellcheck disable=SC2086  # an empty $index must be no argument
install -c constraints-cpu.txt $index || {
    echo "setup: the versions in constraints-cpu.txt cannot be had here; trying pip's own choice, which may bring CUDA (gigabytes)" >&2
    install
}
