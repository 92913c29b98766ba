"""`tare history`: the figures of a project over its commits, kept in a folder."""
