"""Every write of ranking: keyword-only functions, named for what they do."""
