"""The timeline, the ledger and the scorecards: pure transforms of DataFrames."""
