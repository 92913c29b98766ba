"""`tare space`: resident pages divided, against naive models."""
