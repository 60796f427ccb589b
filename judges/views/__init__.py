"""The pages of judges: their runs, their verdicts, and how far they can be trusted."""
