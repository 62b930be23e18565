"""The contract between gateway and workers: messages, faults, words, limits, key names. No I/O."""
