"""The fenced blocks of a Markdown file."""


class Block:
    """```info ... ```: its lines, and where they stand in the file (from 0)."""

    def __init__(self, info, first, lines):
        self.kind, _, self.name = info.partition(" ")
        self.first, self.lines = first, lines

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"


def blocks(text):
    found, inside = [], None
    for number, line in enumerate(text.split("\n")):
        if inside is not None and line == "```":
            found.append(inside)
            inside = None
        elif inside is not None:
            inside.lines.append(line)
        elif line.startswith("```"):
            inside = Block(line[3:], number + 1, [])
    if inside is not None:
        raise ValueError(f"line {inside.first}: a block is not closed")
    return found


def headings(text):
    """For each line of the file, the heading that it stands under."""
    heading, found, code = "", [], False
    for line in text.split("\n"):
        code ^= line.startswith("```")
        if line.startswith("#") and not code:
            heading = line.split(" ", 1)[1]
        found.append(heading)
    return found
