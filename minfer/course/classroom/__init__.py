"""The instructor's kit: grades submissions as untrusted code, and builds what a class needs from the one source of the course.

From: `minfer classroom grade` and `minfer classroom build`. To: result files, and a folder of things to hand out.
"""
