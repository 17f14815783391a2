"""Pages and figures over the published tables; they read, sum and draw, and compute nothing new."""
