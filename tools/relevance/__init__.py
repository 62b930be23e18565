"""Learn by what a search judges its hits: see workers/search/relevance.py."""
