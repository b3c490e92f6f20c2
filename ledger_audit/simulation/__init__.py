"""A small training job with real ledgers, killed and resumed with a fault of one's choice."""
