"""What some parts of a slot promise beyond its suite: `promises/<slot>.py` has a list PROPERTIES. Chapters ask for them by name.

A static scheduler is a scheduler, and a block pool without a prefix cache is a block pool: both have all properties of their suites.
What sets a continuous scheduler, a prefix cache or minfer's own norms apart is here.
"""
