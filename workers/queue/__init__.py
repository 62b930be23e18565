"""The answering half of the queue: claims jobs, runs their commands, settles them. Knows no memories."""
