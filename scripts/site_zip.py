"""Packs the built site into a zip that opens from a disk: unpack it, and open index.html. `make docs` runs it.

From: the folder that mkdocs wrote. To: one file. The same site gives the same bytes.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

MADE = (1980, 1, 1, 0, 0, 0)  # a zip must say something
SERVED_ONLY = {"sitemap.xml", "sitemap.xml.gz", "404.html", "objects.inv"}
FOR_DEBUGGING = ".map"


def pack(site: Path, out: Path) -> None:
    """Everything below `site`, in a folder named as the zip is; what only a server needs is left out."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(site.rglob("*")):
            name = path.relative_to(site).as_posix()
            if path.is_file() and name not in SERVED_ONLY and path.suffix != FOR_DEBUGGING:
                entry = zipfile.ZipInfo(f"{out.stem}/{name}", MADE)
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                packed.writestr(entry, path.read_bytes())


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
