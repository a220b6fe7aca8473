"""What every op and optimizer of the language means, written without the compiler's code: in NumPy, and whole models in PyTorch (reader, named, model)."""
