"""Random specs: models of many ops, and layouts for them."""
