"""Links of the repository's texts, turned into links of the site.

A text links to files as they lie in the repository. A file that has a page is linked to its page; any other file of the repository
gets a page that shows its source. The name of a file in `code` becomes a link as well. Markers and other comments are left out.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from markers import FENCE

from pages.page import Page, fence
from pages.traces import framed

CODE = re.compile(r"(?<!`)`[^`\n]+`(?!`)")
LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)(?P<path>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\s+\"[^\"\n]*\"\)|\))")
FILE = re.compile(r"`((?:minfer|chapters|scripts|tests|benchmarks|notebooks|docs)/[\w./-]+\.\w+|Makefile|pyproject\.toml)`")
BESIDE = re.compile(r"`((?:museum|answers|measure|drawing)\.py|chapter\.toml)`")  # in the folder of a chapter
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
LANGUAGES = {".py": "python", ".cpp": "cpp", ".h": "cpp", ".sh": "bash", ".toml": "toml", ".json": "json", ".yml": "yaml"}
LARGE = 200_000  # characters; a longer file is not shown


class Links:
    """Rewrites texts, and remembers which sources must be shown."""

    def __init__(self, root: Path, uris: dict[str, str]):
        """uris: path in the repository → uri on the site."""
        self.root, self.uris = root, uris
        self.shown: dict[str, str] = {}

    def rewrite(self, page: Page) -> Page:
        """The page with links that hold on the site."""
        parts, at = [], 0
        for block in [*FENCE.finditer(page.text), None]:
            parts.append(framed(self._prose(page.text[at : block.start() if block else None], page)))
            if block:
                parts.append(block[0])
                at = block.end()
        return Page(page.uri, page.source, "".join(parts))

    def sources(self) -> list[Page]:
        """A page for every file that was linked and has no other."""
        return [self._source(path, uri) for path, uri in sorted(self.shown.items())]

    def _prose(self, text: str, page: Page) -> str:
        pieces, at = [], 0
        for code in [*CODE.finditer(text), None]:
            pieces.append(self._words(text[at : code.start() if code else None], page))
            if code:
                pieces.append(self._code(code, page))
                at = code.end()
        return "".join(pieces)

    def _words(self, text: str, page: Page) -> str:
        def link(match: re.Match) -> str:
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page.source), match["path"]))
            uri = self._uri(path)
            return match[0] if uri is None else self._relative(uri, page) + (match["anchor"] or "")

        return LINK.sub(link, COMMENT.sub("", text))

    def _code(self, code: re.Match, page: Page) -> str:
        named, beside = FILE.fullmatch(code[0]), BESIDE.fullmatch(code[0])
        uri = self._uri(named[1]) if named else None
        if beside and page.source.startswith("chapters/"):
            uri = self._uri(f"{posixpath.dirname(page.source)}/{beside[1]}")
        before, after = code.string[code.start() - 1 : code.start()], code.string[code.end() : code.end() + 1]
        is_link = before == "[" or after == "]" or code.string[: code.start()].rpartition("\n")[2].startswith("#")
        return code[0] if uri is None or uri == page.uri or is_link else f"[{code[0]}]({self._relative(uri, page)})"

    def _uri(self, path: str) -> str | None:
        if path in self.uris:
            return self.uris[path]
        file = self.root / path
        if path.startswith("..") or not file.is_file() or file.suffix not in {*LANGUAGES, ""}:
            return None
        return self.shown.setdefault(path, f"source/{path}.md")

    def _source(self, path: str, uri: str) -> Page:
        text = (self.root / path).read_text(encoding="utf-8")
        suffix = Path(path).suffix
        shown = text if len(text) <= LARGE else text[:LARGE] + "\n..."
        language = LANGUAGES.get(suffix, "make" if path == "Makefile" else "text")
        head = f"---\ntitle: {path}\nsearch:\n  exclude: true\n---\n\n# {path}\n\n"
        return Page(uri, path, head + fence(shown, language, 'linenums="1"') + "\n")

    @staticmethod
    def _relative(uri: str, page: Page) -> str:
        return posixpath.relpath(uri, posixpath.dirname(page.uri) or ".")
