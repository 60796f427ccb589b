"""The signed log of the votes that count: written by refreshes, verified, exported as a file."""
