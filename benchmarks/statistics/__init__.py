"""`ranking.stats` beside the published packages. One module per contest, in `contests`."""
