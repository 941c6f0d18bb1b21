"""How a gradient comes to be."""
