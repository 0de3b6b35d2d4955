"""mkdocs' hooks: the pages that `pages/build.py` makes from the repository take their places among those of docs.

From: `mkdocs build` and `mkdocs serve`, by `hooks:` in mkdocs.yml. To: mkdocs' list of files and its navigation.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
for place in (str(ROOT), str(ROOT / "scripts")):
    if place not in sys.path:
        sys.path.insert(0, place)

from mkdocs.config.defaults import MkDocsConfig  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402
from pages.build import Site, build  # noqa: E402

built: Site  # set in on_config, which comes first


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    global built
    built = build(ROOT)
    config.nav = built.nav
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for file in list(files):
        if file.src_uri.endswith(".md"):  # its text has passed through `build`
            files.remove(file)
    for uri, page in built.pages.items():
        files.append(File.generated(config, uri, content=page.text))
    for uri, content in built.files.items():
        if isinstance(content, Path):
            files.append(File.generated(config, uri, abs_src_path=str(content)))
        else:
            files.append(File.generated(config, uri, content=content))
    return files
