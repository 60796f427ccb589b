"""Forms: what people fill in; what they may do and what is right is decided elsewhere."""
