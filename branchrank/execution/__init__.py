"""Run a task on shards in this process, in several processes or on a Ray cluster."""
