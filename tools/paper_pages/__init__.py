"""Makes the pages of docs/papers, their pictures and tables, from the archives of the runs."""
