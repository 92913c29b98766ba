"""The heap trace: one row an object, read, written, checked and analysed."""
