"""Software engineering: a repository, an issue, a shell and an edit tool; hidden tests decide."""
