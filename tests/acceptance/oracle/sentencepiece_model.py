"""Small SentencePiece models, written by hand: what `meshc data train` does not make."""
import struct

NORMAL, UNKNOWN, CONTROL = 1, 2, 3  # sentencepiece_model.proto: SentencePiece.Type
UNIGRAM = 1


def number(value):
    """A varint of protobuf."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def field(tag, content):
    return number(tag << 3 | 2) + number(len(content)) + content


def small_number(tag, value):
    return number(tag << 3) + number(value)


def piece(text, kind, score):
    return field(1, field(1, text.encode()) + number(2 << 3 | 5) + struct.pack("<f", score) + small_number(3, kind))


def model_of(pieces):
    """A unigram model of `pieces` from number 3 on, without pieces for bytes; 0 to 2 are the unknown piece, the begin and the end."""
    special = piece("<unk>", UNKNOWN, 0) + piece("<s>", CONTROL, 0) + piece("</s>", CONTROL, 0)
    return special + b"".join(piece(text, NORMAL, -1.0 - i) for i, text in enumerate(pieces)) + field(2, small_number(3, UNIGRAM)) + field(3, b"")
