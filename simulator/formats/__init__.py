"""The same simulated fleet as the logs that sites really have: scheduler, launcher, trainer."""
