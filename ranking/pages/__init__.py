"""What the public pages say: from published rows to what a template prints. Writes nothing."""
