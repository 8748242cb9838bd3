"""Agreement of subject and verb."""
