"""What is shown: tables and figures, on a terminal, a page and in a notebook."""
