"""Run work on a schedule: unfinished work, old rows, the decay of links, active hours."""
