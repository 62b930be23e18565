"""Links between memories: what agents assert, what is made automatically, and the cap that holds for both."""
