"""Plan a benchmark (from predictors, an experiment file or an interrupted run), and run it."""
