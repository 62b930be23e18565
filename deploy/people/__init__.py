"""The commands for people: they call the tools as any client does, and draw what is answered."""
