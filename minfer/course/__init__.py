"""The course: chapters, the student's commands, and what the chapters' drawings and notebooks are made with."""
