"""Answers that candidates' models generate: ordered, asked for through the ledger, and kept."""
