"""The reasoning: pure functions over frames and values; nothing here touches a disk."""
