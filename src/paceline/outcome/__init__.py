"""What is known of a run when it is over: results, and how they are made."""
