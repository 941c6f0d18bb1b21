"""How long a step takes on a device, by measurement, and how long it should, by arithmetic."""
