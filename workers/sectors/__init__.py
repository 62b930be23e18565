"""Classify memories into five sectors by a small model, and let each sector fade at its own pace."""
