"""meshc fmt: formatting twice changes nothing, meaning and comments stay, and the specs of the tree are formatted."""
import glob
import random
import re
import subprocess

from common import TOP, Report, meshc, scratch
from common import run as execute

SEED = 20261121
FORMATTED = ["specs/*.mesh", "specs/tour/*.mesh", "frontend/std/*.mesh", "tests/bench/*.mesh"]
OTHERS = ["tests/frontend/specs/*.mesh"]


def formatted(text):
    done = subprocess.run([meshc(), "fmt", "-"], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout


def tree(folder, text):
    """The syntax tree as meshc prints it, which knows nothing of comments and columns."""
    path = f"{folder}/tree.mesh"
    with open(path, "w") as file:
        file.write(text)
    return subprocess.run([meshc(), "ir", path, "ast"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout


def comments(text):
    return [line.split("//", 1)[1].strip() for line in text.splitlines() if "//" in line and '"' not in line.split("//")[0]]


def untidy(text, dice):
    """The same file as a careless author would leave it: other indentation, spaces and blank lines."""
    lines = []
    for line in text.splitlines():
        code, slashes, comment = line.partition("//")
        if '"' not in code:
            code = re.sub(r"(?<=\S) +(?=\S)", lambda m: " " * dice.randint(1, 3), code.strip())
            code = re.sub(r" ?([,=]) ?", lambda m: " " * dice.randint(0, 1) + m[1] + " " * dice.randint(0, 2), code) if "==" not in code and "<=" not in code and ">=" not in code and "!=" not in code else code
        lines.append(" " * dice.randint(0, 7) + code.strip() + " " * dice.randint(0, 3) + slashes + comment)
        lines += [""] * (dice.randint(0, 2) if not line.strip() else 0)
    return "\n".join(lines) + "\n"


def run(small):
    report = Report()
    dice = random.Random(SEED)
    rounds = 5 if small else 100
    print(f"seed {SEED}, {rounds} untidy versions of every file")
    with scratch() as folder:
        for pattern in FORMATTED + OTHERS:
            for path in sorted(glob.glob(f"{TOP}/{pattern}")):
                name = path[len(TOP) + 1:]
                with open(path) as file:
                    text = file.read()
                once = formatted(text)
                if pattern in FORMATTED:
                    report.true(f"{name} is formatted", execute(meshc(), "fmt", "--check", path).stdout == "")
                good = tree(folder, text) != "" and formatted(once) == once and tree(folder, once) == tree(folder, text) and comments(once) == comments(text)
                for _ in range(rounds):
                    careless = untidy(text, dice)
                    tidied = formatted(careless)
                    good = good and formatted(tidied) == tidied and tree(folder, tidied) == tree(folder, text) and comments(tidied) == comments(text)
                report.true(f"{name}: idempotent, same tree, same comments", good)
        path = f"{folder}/broken.mesh"
        with open(path, "w") as file:
            file.write("model M {\n  x =\n}\n")
        before = open(path).read()
        done = subprocess.run([meshc(), "fmt", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        report.true("a file with syntax errors is left alone", done.returncode == 1 and "error[E01" in done.stderr and open(path).read() == before)
    return report
