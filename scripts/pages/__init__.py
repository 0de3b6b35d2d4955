"""The pages of the documentation site that are made from the repository: chapters, notebooks, stages, slots, sources.

From: docs, chapters, minfer, benchmarks/results. To: `site_hooks.py`, which hands them to mkdocs. Nothing here knows of mkdocs, so
another generator of sites can take the same pages: `build(root)` is all that it needs.
"""
