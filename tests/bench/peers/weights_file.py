"""Weights that ours and a peer begin with: safetensors of f32."""
import json
import struct

import numpy as np


def write_safetensors(path, arrays):
    header, offset = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array, np.float32).tobytes())


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    return {name: np.array(np.frombuffer(data[e["data_offsets"][0]:e["data_offsets"][1]], np.float32)).reshape(e["shape"])
            for name, e in header.items() if name != "__metadata__"}
