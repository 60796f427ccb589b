"""What the arena's pages say, read from the tables; writes nothing."""
