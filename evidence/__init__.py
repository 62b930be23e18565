"""Compare the files that memories cite with what is there. Standard library and git alone; nothing is sent anywhere."""
