"""Readers: raw log files to logbook rows. A reader infers nothing; it says what the log says."""
