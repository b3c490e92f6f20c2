"""Claims: read whatever the framework saved, and compare it with what was committed."""
