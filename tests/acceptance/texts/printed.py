"""Commands shown in a text with what they print: run, compared, and written anew with UPDATE_GOLDENS=1.

A line `...` in a text stands for paragraphs that are left out, an indented one for lines of a paragraph. What is shown must be complete
between them: paragraphs are found by their first word, lines by their first two (by the first, where the second is a number).
"""
import os
import shlex
import subprocess

from common import meshc

UPDATE = bool(os.environ.get("UPDATE_GOLDENS"))


def printed(command, folder):
    """What `meshc plan x.mesh` prints in a folder, both streams; a pipe is none of it."""
    words = shlex.split(command)
    if words[0] != "meshc":
        raise ValueError(f"{command}: only meshc is run")
    done = subprocess.run([meshc(), *words[1:]], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                          env={**os.environ, "NO_COLOR": "1"})
    return done.stdout


def refreshed(shown, output):
    """The text as it should be: `output`, with left out what `shown` leaves out."""
    lines = [line.rstrip() for line in output.strip("\n").split("\n")]
    if not any(line.strip() == "..." for line in shown):
        return lines
    parts = follow(paragraphs(shown), paragraphs(lines), lambda part, other: part[0].split()[0] == other[0].split()[0], inner)
    text = []
    for part in parts:
        if text and part != ["..."] and text[-1] != "...":
            text.append("")
        text += part
    return text


def paragraphs(lines):
    """Lists of lines; `...` at the left edge is one by itself."""
    parts, fresh = [], True
    for line in lines:
        if line == "...":
            parts.append([line])
        elif line and fresh:
            parts.append([line])
        elif line:
            parts[-1].append(line)
        fresh = line in ("", "...")
    return parts


def inner(shown, part):
    if not any(line.strip() == "..." for line in shown):
        return part
    return follow(shown, part, same_line, lambda _, line: line)


def same_line(shown, line):
    words = shown.split()[:2]
    words = words[:1] if words[-1][0].isdigit() else words
    return line.split()[:len(words)] == words


def follow(shown, items, same, fill):
    """Those of `items` that `shown` shows, and everything between neighbours that no `...` parts."""
    result, at, open_ = [], 0, False
    for one in shown:
        if (one[0] if isinstance(one, list) else one).strip() == "...":
            result.append(one)
            open_ = True
            continue
        found = next((i for i in range(at, len(items)) if same(one, items[i])), None)
        if found is None:
            continue
        if not open_:
            result += items[at:found]
        result.append(fill(one, items[found]))
        at, open_ = found + 1, False
    return result if open_ else result + items[at:]
