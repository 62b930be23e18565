"""Packages below `integrations`, in the hands of what they are made for, or of doubles of its interface."""
