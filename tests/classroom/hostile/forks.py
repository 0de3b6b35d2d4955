"""Starts processes without end, by every way that Python has."""

import multiprocessing
import os
import subprocess
import sys
import threading

for attempt in (
    os.fork,
    lambda: subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True),
    lambda: os.posix_spawn("/bin/sleep", ["sleep", "1000"], {}),
    lambda: os.system("sleep 1000 &"),
    lambda: multiprocessing.Process(target=print).start(),
):
    for _ in range(20):
        try:
            attempt()
        except (OSError, PermissionError, RuntimeError):
            break
for _ in range(2000):
    try:
        threading.Thread(target=lambda: threading.Event().wait(), daemon=True).start()
    except RuntimeError:
        break


def silu_mul(gate_up):
    return gate_up
