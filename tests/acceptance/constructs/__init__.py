"""Small specs, one for each construct of the language, with what NumPy says of their values."""
