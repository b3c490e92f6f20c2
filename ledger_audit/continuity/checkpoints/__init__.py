"""Checkpoints: from the events of the ranks to what a resume from each would do."""
