"""Every write of the judges' floor."""
