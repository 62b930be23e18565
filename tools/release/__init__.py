"""Makes what a release consists of: sdist and wheel, the notes, a bill of materials, and their digests."""
