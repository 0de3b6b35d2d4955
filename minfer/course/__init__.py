"""The course: chapters, starters, the checks of a reader's own parts, and points.

Nothing here imports PyTorch before a part is checked, so that the commands answer at once.
"""
