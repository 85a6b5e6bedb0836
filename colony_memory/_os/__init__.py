"""Plain files of this machine: the one place that opens, creates, replaces and locks them."""
