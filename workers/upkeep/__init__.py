"""What is done on a schedule: unfinished work found, old rows trimmed, links worn down, the clock of active hours."""
