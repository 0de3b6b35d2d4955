"""The process of one submission: walls first, then minfer, then the submitted file. Started by `process.py` with `python -I`.

From: one argument, JSON: where the pipes, the library and the home are, and the limits. To: `serving.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    given = json.loads(sys.argv[1])
    sys.path.insert(0, given["library"])
    sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "__module__", "").startswith("_frozen_importlib")]
    from minfer.course.classroom import guard, jail

    walls = jail.enter(Path(given["home"]), given["visible"], given["hidden"], given["memory"], given["seconds"])

    import torch

    from minfer.course.classroom.frames import Pipe
    from minfer.course.classroom.serving import Server
    from minfer.course.classroom.wire import pack_reply

    torch.set_num_threads(1)
    server = Server(Pipe(*given["pipes"]), given["interpreted"])
    for module in given["imports"]:
        __import__(module)
    guard.install(given["home"], given["hidden"])
    server.pipe.send(pack_reply({"walls": walls}, server.mirrors))
    server.serve()


main()
