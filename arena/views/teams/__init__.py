"""Teams: who is in them, how one comes in, what acts for them, what was done."""
