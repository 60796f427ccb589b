"""The sample arena: answers written for it, and votes made by a seeded script."""
