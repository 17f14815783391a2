"""Whose the loss is and why: interruptions, causes and charges."""
