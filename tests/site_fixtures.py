"""The built site for tests: the one that MINFER_SITE names, or one that is built now, strictly and without running notebooks."""

from __future__ import annotations

import functools
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with index.html."""
    if "MINFER_SITE" in os.environ:
        return Path(os.environ["MINFER_SITE"]).resolve()
    pytest.importorskip("mkdocs", reason="the extra `docs` brings it")
    folder = tmp_path_factory.mktemp("site")
    env = os.environ | {"DOCS_NOTEBOOKS": "0", "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


def pages(site: Path) -> list[str]:
    """Paths of all pages below the site's folder."""
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))


@contextmanager
def served(site: Path, search: bool = True) -> Iterator[str]:
    """The address of a server of that folder on this machine. Without search each page has an empty index to read, which is faster."""
    nothing = json.dumps({"config": {"lang": ["en"], "separator": " ", "pipeline": []}, "docs": []}).encode()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_GET(self):
            if search or not self.path.endswith("search_index.json"):
                return super().do_GET()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(nothing)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
