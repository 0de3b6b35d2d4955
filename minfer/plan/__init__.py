"""What a model needs of a card, on paper: bytes and FLOPs, before anything is run.

From: a model's shape and a card's data sheet. To: `minfer plan`, the chapters' predictions, and the same formulas in JavaScript
(`formulas.mjs`) behind the site's calculators.
"""
