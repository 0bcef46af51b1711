"""The only importer of pyspark: lowering, session, runner, state."""
