"""Webhooks over real servers, to a receiver that takes, refuses, hangs and dies."""
