"""The parts of the item `inference`."""
