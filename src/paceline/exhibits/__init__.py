"""Tables, figures and pages as values, and how they are drawn."""
