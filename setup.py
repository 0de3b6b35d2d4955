"""Puts the chapters into the wheel, as minfer/chapters; everything else is said in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithChapters(build_py):
    """An editable install needs no copy: there the chapters lie beside the package."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "minfer" / "chapters"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree("chapters", target, ignore=shutil.ignore_patterns("__pycache__", ".*"))


setup(cmdclass={"build_py": BuildWithChapters})
