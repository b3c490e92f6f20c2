"""
Runs the questions that touch all records on a Spark cluster.

Executors read with the very reader of one process, so that one reader knows formats and stores, and
hand columns of Arrow to Spark, which groups, joins and hashes. All reasoning stays in the driver.
"""
