"""Real machines on each of which a person types `paceline join`."""
