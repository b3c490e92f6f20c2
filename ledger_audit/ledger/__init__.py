"""The archive: everything that reads what the ranks wrote."""
