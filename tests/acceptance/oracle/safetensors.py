"""Writes a safetensors file: a length, a JSON header, the arrays one after another."""
import json
import struct

import numpy as np


def write(path, arrays, kind="<f8"):
    """Every array as `kind`, "<f8" or "<f4"."""
    header, data, offset = {}, [], 0
    for name, array in arrays.items():
        bytes_ = np.ascontiguousarray(array, dtype=kind).tobytes()
        header[name] = {"dtype": {"<f8": "F64", "<f4": "F32"}[kind], "shape": list(array.shape), "data_offsets": [offset, offset + len(bytes_)]}
        data.append(bytes_)
        offset += len(bytes_)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))
