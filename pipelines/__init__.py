"""Logs of GPU training jobs in, a balanced ledger of their time out."""
