"""Looking for examples in docstrings imports modules; importing the guided fuzzer instruments everything."""

collect_ignore = ["__main__.py", "guided.py", "worker.py"]
