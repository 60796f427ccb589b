"""Speed as ratios: our pages beside bare views, in one run, on one machine, in turns."""
