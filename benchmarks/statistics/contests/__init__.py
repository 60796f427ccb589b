"""One module per contest, each with its CONTESTS. Copy one to add another."""
