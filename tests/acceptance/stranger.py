"""stranger.py SETTINGS: a stranger at a job, as a process of its own: connects to what listens and says everything but what would let it in. SETTINGS is JSON: `targets` (["tcp", address,
port] or ["unix", name, type]), `tries`, `seed`, `user` (to be). Prints how many tries were let in, and how many found somebody, as JSON."""
import json
import os
import random
import socket
import struct
import sys

PROOF, ADMITTED, START, ENTERED, SIGNAL = 101, 102, 103, 105, 107  # MessageKind of runtime/src/control/message.h
HEAD = 16  # bytes: length, kind, rank, value
PATIENCE = 0.15  # seconds


def packed(*parts):
    return b"".join(struct.pack("<i", part) if isinstance(part, int) else struct.pack("<i", len(part)) + part for part in parts)


def frame(kind, text=b"", value=0):
    return struct.pack("<Iiii", len(text), kind, 0, value) + text


def something(dice, challenge):
    """What it says to the door."""
    theirs = challenge[HEAD + 8:HEAD + 24] or dice.randbytes(16)
    words = packed(dice.choice([theirs, dice.randbytes(16)]), dice.choice([b"", b"MUNGE:AwQFAAC:", b"munge", dice.randbytes(40)]), dice.randrange(-1, 4), b"host1")
    proof = frame(PROOF, packed(words, dice.choice([dice.randbytes(8), b"", bytes(8), theirs[:8]])))
    return dice.choice([b"", dice.randbytes(dice.randrange(1, 3000)), proof, proof + frame(SIGNAL, value=9), 5 * frame(SIGNAL, value=9), proof[:dice.randrange(len(proof))],
                        b"\xff" * HEAD, frame(ENTERED, value=4711), frame(START, b"true"), b"GET / HTTP/1.1\r\n\r\n"])


def kinds_in(answer):
    kinds = []
    while len(answer) >= HEAD:
        length, kind, _, _ = struct.unpack("<Iiii", answer[:HEAD])
        kinds.append(kind)
        answer = answer[HEAD + length:]
    return kinds


def talk(s, dice):
    """Whether the door lets it in."""
    answer = b""
    try:
        answer = s.recv(1000)
        s.send(something(dice, answer))
        if dice.random() < 0.5:
            s.shutdown(socket.SHUT_WR)
        while len(answer) < 10_000 and (more := s.recv(1000)):
            answer += more
    except OSError:
        pass
    return ADMITTED in kinds_in(answer)


def claim_to_be_a_rank(s, dice):
    """Whether the agent of a host takes it for one."""
    try:
        s.send(struct.pack("<ii", ENTERED, dice.randrange(4)) + dice.choice([b"", b"0" * 32]))
        return s.recv(1000) != b""
    except OSError:
        return False


def one_try(target, dice):
    """Whether it was let in, and whether somebody listened at all."""
    kind = target[2] if target[0] == "unix" else socket.SOCK_STREAM
    with socket.socket(socket.AF_UNIX if target[0] == "unix" else socket.AF_INET, kind) as s:
        s.settimeout(PATIENCE)
        try:
            s.connect("\0" + target[1] if target[0] == "unix" else tuple(target[1:]))
        except OSError:
            return False, False
        return (claim_to_be_a_rank if kind == socket.SOCK_SEQPACKET else talk)(s, dice), True


def main():
    settings = json.loads(sys.argv[1])
    if settings["user"]:
        os.setgid(settings["user"])
        os.setuid(settings["user"])
    dice = random.Random(settings["seed"])
    results = [one_try(dice.choice(settings["targets"]), dice) for _ in range(settings["tries"])]
    print(json.dumps({"admitted": sum(admitted for admitted, _ in results), "heard": sum(heard for _, heard in results)}))


if __name__ == "__main__":
    main()
