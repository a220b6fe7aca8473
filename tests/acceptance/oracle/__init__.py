"""NumPy's side of the acceptance items: what every op and optimizer of the language means, written without the compiler's code."""
