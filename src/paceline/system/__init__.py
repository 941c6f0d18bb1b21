"""The few Linux calls that Python does not have."""
