#!/usr/bin/python3
"""heat.py: what specs/heat.mesh reads, and a picture of what it writes. Python's standard library alone.

  specs/heat.py source out/source.npy [--size X Y]      flames below the plate, as f64[x, y]
  specs/heat.py picture out/heat_2000.npy out/heat.png  a field, from black (cold) over red to white (hot)
"""
import argparse
import ast
import math
import os
import struct
import zlib
from array import array

FLAMES = ((0.30, 0.25, 0.050), (0.62, 0.55, 0.080), (0.45, 0.85, 0.035))  # centre along x and y, width; parts of a side


def flame(row, column):
    """Heat a step adds at a place: largest in the middle of each flame; `column` goes round the pipe."""
    heat = 0.0
    for centre_row, centre_column, width in FLAMES:
        across = abs(column - centre_column)
        across = min(across, 1 - across)
        heat += 0.5 * math.exp(-((row - centre_row) ** 2 + across**2) / (2 * width**2))
    return heat


def write_npy(path, shape, numbers):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape[0]}, {shape[1]}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + array("d", numbers).tobytes())


def read_npy(path):
    with open(path, "rb") as file:
        if file.read(8) != b"\x93NUMPY\x01\x00":
            raise SystemExit(f"{path} is not an npy file of version 1")
        header = ast.literal_eval(file.read(struct.unpack("<H", file.read(2))[0]).decode())
        if header["descr"] != "<f8" or header["fortran_order"] or len(header["shape"]) != 2:
            raise SystemExit(f"{path} does not hold a field f64[x, y]")
        numbers = array("d")
        numbers.frombytes(file.read())
    return header["shape"], numbers


def write_png(path, width, height, rows):
    """`rows`: bytes of red, green and blue, three a pixel."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = b"".join(b"\x00" + row for row in rows)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(pixels, 9)) + chunk(b"IEND", b""))


def glow(share):
    """The colour of a body that is hot by this share: red comes first, then green, then blue."""
    return bytes(min(255, max(0, round(255 * (3 * share - part)))) for part in range(3))


def source(options):
    x, y = options.size
    write_npy(options.file, (x, y), (flame((row + 0.5) / x, (column + 0.5) / y) for row in range(x) for column in range(y)))


def picture(options):
    (x, y), field = read_npy(options.file)
    low, high = min(field), max(field)
    scale = 1 / (high - low) if high > low else 0
    write_png(options.png, y, x, (b"".join(glow((field[row * y + column] - low) * scale) for column in range(y)) for row in range(x)))
    print(f"{options.png}: {x} x {y}, from {low:.6g} (black) to {high:.6g} (white)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="source|picture")
    command = commands.add_parser("source", help="write the flames")
    command.add_argument("file")
    command.add_argument("--size", nargs=2, type=int, default=(256, 256), metavar=("X", "Y"))
    command.set_defaults(run=source)
    command = commands.add_parser("picture", help="draw a field")
    command.add_argument("file")
    command.add_argument("png")
    command.set_defaults(run=picture)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
