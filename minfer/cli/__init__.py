"""The command line: one file a command, `app.py` puts them together, `options.py` holds what they share."""
