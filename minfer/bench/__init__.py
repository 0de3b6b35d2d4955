"""Benchmarks: one workload, run by every stage or beside transformers, and a report that says on what it was measured."""
