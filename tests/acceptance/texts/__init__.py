"""Texts that cannot lie: what they show is run, and compared with what is printed and with NumPy."""
