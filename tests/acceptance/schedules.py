"""Random lists of pipelines, with communication: `meshc schedule` accepts those that a run with rendezvous brings to the right end, and no others. Of those that come
right, a layout takes the ones whose stages lie and take their micro-batches as it can: built with them, programs train on threads as one rank does.

The run here knows no rules of schedules: ranks make their lists, a send ends when its receive has begun, and what is computed is the set of
(stage, micro-batch) that a value is made of. The end is right when every stage has the gradient of every micro-batch once.
"""
import os
import random
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from common import Report, json_lines, meshc, scratch
from common import run as execute

SEED = 20261123
NAMES = {"gpipe": [1], "1f1b": [1], "eager_1f1b": [1], "interleaved": [1, 2, 3], "looped_bfs": [1, 2, 3], "circular": [2], "zb_h1": [1], "zb_h2": [1], "zb_v": [2]}


class Wrong(Exception):
    pass


class Run:
    """The ranks of a pipeline, each a generator that yields while it waits."""

    def __init__(self, lists):
        self.lists = lists
        self.stages = 1 + max(stage for actions in lists for stage, _, _ in actions)
        self.micro_batches = 1 + max(one for actions in lists for _, _, one in actions)
        self.home = {}     # stage -> rank
        self.posted = set()  # receives that have begun
        self.sent = set()    # sends that have ended
        self.made = set()

    def lives(self, stage, rank):
        if self.home.setdefault(stage, rank) != rank:
            raise Wrong("a stage on two ranks")

    def crosses(self, one, other):
        return {one, other} <= self.home.keys() and self.home[one] != self.home[other]

    def rank(self, number):
        for action in self.lists[number]:
            stage, kind, one = action
            if action in self.made:
                raise Wrong("twice")
            if kind in ("F", "R", "I", "W", "B"):
                self.lives(stage, number)
            if kind == "F" and stage > 0:
                yield from self.needs(number, stage, "RECV_F", (stage - 1, "F", one), one)
            if kind in ("I", "B"):
                if (stage, "F", one) not in self.made or (stage, "B" if kind == "I" else "I", one) in self.made:
                    raise Wrong("no activations, or a gradient that is there")
                if stage + 1 < self.stages:
                    yield from self.needs(number, stage, "RECV_B", (stage + 1, "IB", one), one)
            if kind == "W" and (stage, "I", one) not in self.made:
                raise Wrong("no gradient")
            if kind == "R" and ((stage, "F", one) not in self.made or {(stage, "I", one), (stage, "B", one)} & self.made):
                raise Wrong("R in a wrong place")
            if kind in ("SEND_F", "SEND_B"):
                other = stage + (1 if kind == "SEND_F" else -1)
                have = {(stage, "F", one)} if kind == "SEND_F" else {(stage, "I", one), (stage, "B", one)}
                if self.home.get(stage) != number or not have & self.made or not 0 <= other < self.stages:
                    raise Wrong("nothing to send")
                while (other, kind.replace("SEND", "RECV"), one) not in self.posted:
                    yield
                self.sent.add(action)
            if kind in ("RECV_F", "RECV_B"):
                self.posted.add(action)
            self.made.add(action)

    def needs(self, number, stage, receive, maker, one):
        """Waits for what another stage has made: here, or over a message."""
        beside = maker[0]
        makers = {(beside, kind, one) for kind in maker[1]}
        while beside not in self.home:
            yield
        if self.home[beside] == number:
            if not makers & self.made:
                raise Wrong("not made yet")
            return
        if (stage, receive, one) not in self.posted:
            raise Wrong("no receive")
        while (beside, receive.replace("RECV", "SEND"), one) not in self.sent:
            yield

    def comes_right(self):
        ranks = [self.rank(number) for number in range(len(self.lists))]
        try:
            # The stages of a rank are known from its list before anything is computed.
            for number, actions in enumerate(self.lists):
                for stage, kind, _ in actions:
                    if kind in ("F", "R", "I", "W", "B"):
                        self.lives(stage, number)
            alive = list(range(len(ranks)))
            while alive:
                before = (len(self.made), len(self.posted), len(alive))
                for number in list(alive):
                    try:
                        next(ranks[number])
                    except StopIteration:
                        alive.remove(number)
                if before == (len(self.made), len(self.posted), len(alive)):
                    return False  # all wait
        except Wrong:
            return False
        for stage in range(self.stages):
            for one in range(self.micro_batches):
                whole, halves = (stage, "B", one) in self.made, {(stage, "I", one), (stage, "W", one)} <= self.made
                if (stage, "F", one) not in self.made or whole == halves or (whole and (stage, "W", one) in self.made):
                    return False
        messages = {action for action in self.made if action[1].startswith("RECV")}
        for stage, kind, one in messages:
            beside = stage + (-1 if kind == "RECV_F" else 1)
            if not self.crosses(stage, beside) or (beside, kind.replace("RECV", "SEND"), one) not in self.sent:
                return False
            if self.home[stage] != next(n for n, actions in enumerate(self.lists) if (stage, kind, one) in actions):
                return False
        # A list that says some messages says all of them.
        wanted = {(s, "RECV_F", one) for s in range(1, self.stages) if self.crosses(s, s - 1) for one in range(self.micro_batches)}
        wanted |= {(s, "RECV_B", one) for s in range(self.stages - 1) if self.crosses(s, s + 1) for one in range(self.micro_batches)}
        return messages == wanted


def parse(text):
    lists = []
    for line in text.strip().split("\n"):
        actions = [re.fullmatch(r"(\d+)([A-Z_]+?)(\d+)", cell).groups() for cell in line.split(",") if cell]
        lists.append([(int(stage), kind, int(one)) for stage, kind, one in actions])
    return lists


def written(lists):
    return "".join(",".join(f"{stage}{kind}{one}" for stage, kind, one in actions) + "\n" for actions in lists)


def mutate(lists, random_):
    """Up to three changes of one place each."""
    lists = [list(actions) for actions in lists]
    for _ in range(random_.choice([0, 1, 1, 1, 2, 3])):
        actions = random_.choice(lists)
        at = random_.randrange(len(actions))
        kind = random_.randrange(6)
        if kind == 0 and len(actions) > 1:
            del actions[at]
        elif kind == 1:
            actions.insert(random_.randrange(len(actions) + 1), actions[at])
        elif kind == 2 and at + 1 < len(actions):
            actions[at], actions[at + 1] = actions[at + 1], actions[at]
        elif kind == 3:
            actions.insert(random_.randrange(len(actions)), actions.pop(at))
        elif kind == 4:
            other = random_.choice(lists)
            if other is not actions and len(actions) > 1:
                other.insert(random_.randrange(len(other) + 1), actions.pop(at))
        else:
            stage, what, one = actions[at]
            actions[at] = (stage, random_.choice(["F", "B", "I", "W", "R"]), one)
    return lists


# Sizes that all micro-batches and stages of the lists divide.
DEEP = """dim batch = 60, embed = 3, out = embed, layer = 12
model Deep {
  input x, y : real[batch, embed]
  h = x
  repeat layer {
    param w : real[embed, out] = fan_in[embed]
    h = h + tanh(dot[embed](h, w))[out as embed]
  }
  loss = mean[batch, embed]((h - y) ^ 2)
  minimize loss with sgd(lr: 0.1)
}
"""


def check_emitted(report, folder, lists, count):
    """Programs that are built with lists, as many as `count`; which layouts refuse, they do with an error about the list."""
    with open(f"{folder}/deep.mesh", "w") as file:
        file.write(DEEP)
    with open(f"{folder}/deep.yaml", "w") as file:
        file.write("data: { x: {file: x.npy}, y: {file: y.npy} }\ntrain: { steps: 3 }\nlog: { every: 1, watch: [grad_norm] }\n")
    for name in "xy":
        np.save(f"{folder}/{name}.npy", np.random.default_rng(ord(name)).standard_normal((180, 3)).astype(np.float32))

    def trained(name, lists_):
        """Losses and norms by step; nothing where the layout refuses the lists."""
        layout = []
        if lists_:
            with open(f"{folder}/{name}.csv", "w") as file:
                file.write(written(lists_))
            with open(f"{folder}/{name}.mesh", "w") as file:
                file.write(f'mesh line {{ pipe: {len(lists_)} }}\nlayout listed on line {{ layer -> pipe {{ microbatches: {1 + max(one for actions in lists_ for _, _, one in actions)}, schedule: "{name}.csv" }} }}\n')
            layout = [f"{folder}/{name}.mesh", "--layout", "listed"]
        done = execute(meshc(), "build", f"{folder}/deep.mesh", *layout, f"{folder}/deep.yaml", "--precision", "f64", "-A", "uneven_stages", "-A", "oversubscribed", "-o", f"{folder}/{name}", code=None)
        if done.returncode != 0:
            report.true(f"{name}: refused for its lists", re.search(r"error\[E0423\]", done.stderr), done.stderr[-300:])
            return None
        execute(f"{folder}/{name}/deep", "-n", max(1, len(lists_)), "--threads", f"{folder}/deep.yaml", f"log.jsonl={folder}/{name}.jsonl", cwd=folder)
        shutil.rmtree(f"{folder}/{name}")
        return [(line["loss"], line["watch"]["grad_norm"]) for line in json_lines(f"{folder}/{name}.jsonl") if "watch" in line]

    one = np.array(trained("one", []))
    right = 0
    for number, lists_ in enumerate(lists):
        if right == count:
            break
        found = trained(f"listed-{number}", lists_)
        if found is None:
            continue
        right += 1
        apart = float(np.max(np.abs(np.array(found) / one - 1))) if len(found) == 3 else float("inf")
        if apart > 1e-9:
            report.check(f"list {number}: losses and norms of 3 steps against one rank, relative" + "\n" + written(lists_), apart, 1e-9)
    report.check("lists with which programs train on threads as one rank does (f64, 1e-9)", right, count, right == count)


def run(small):
    report = Report()
    count = 200 if small else 2000
    random_ = random.Random(SEED)
    print(f"seed {SEED}, {count} lists of up to 4 ranks, 6 micro-batches and 3 chunks")
    with scratch() as folder, ThreadPoolExecutor(2) as pool:
        shapes = [(name, random_.choice(chunks), random_.randint(1, 4), random_.randint(1, 6), random_.choice(["none", "stage", "except_last"]))
                  for name in NAMES for chunks in [NAMES[name]] for _ in range(count // 30 + 1)]
        make = lambda shape: parse(execute(meshc(), "schedule", shape[0], "--chunks", shape[1], "--stages", shape[2], "--microbatches", shape[3],
                                           "--remat", shape[4], "--csv", "--communication").stdout)
        made = list(pool.map(make, shapes))
        report.check("lists as they are made, of which the run comes right", f"{sum(Run(one).comes_right() for one in made)} of {len(made)}", "all",
                     all(Run(one).comes_right() for one in made))
        lists = [mutate(random_.choice(made), random_) for _ in range(count)]

        def accepted(numbered):
            number, one = numbered
            path = os.path.join(folder, f"{number}.csv")
            with open(path, "w") as file:
                file.write(written(one))
            done = execute(meshc(), "schedule", path, "--json", code=None, timeout=60)
            if done.returncode not in (0, 1) or (done.returncode == 1) != ("error[E070" in done.stderr):
                return f"exit code {done.returncode}: {done.stderr[-300:]}"
            return done.returncode == 0

        verdicts = list(pool.map(accepted, enumerate(lists)))
        right = [Run(one).comes_right() for one in lists]
        for number, (verdict, wanted) in enumerate(zip(verdicts, right)):
            if verdict != wanted:
                report.true(f"list {number}: {'comes right' if wanted else 'does not come right'}, said {verdict}", False, "\n" + written(lists[number]))
        report.check("lists that come right, of all", sum(right), "a tenth to nine tenths", count * 0.1 < sum(right) < count * 0.9)
        report.check("lists of which the command says what the run does", sum(v == w for v, w in zip(verdicts, right)), count,
                     verdicts == right)
        check_emitted(report, folder, [one for one, comes in zip(lists, right) if comes and len(one) > 1], 3 if small else 100)
    return report
