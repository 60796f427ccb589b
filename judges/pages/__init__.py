"""What the pages of judges say, read from rows; nothing here writes."""
