"""A program of ours in a folder, with random data: what a step of it is predicted to take, and takes. `predicted` and `auto` compare many of them."""
import json
import os
import statistics

import numpy

from common import json_lines, meshc, run

STEPS, FIRST = 12, 4  # steps of a run, and the first that counts


class Program:
    """One case, built in a folder. `options`: what meshc is given beside the spec's path."""

    def __init__(self, folder, name, ranks, spec, options):
        self.folder, self.name, self.ranks = folder, name, ranks
        self.program = f"{folder}/program/{os.path.basename(spec).removesuffix('.mesh')}"
        os.makedirs(folder, exist_ok=True)
        plan = json.loads(run(meshc(), "plan", spec, *options, "--json").stdout)
        self.predicted = plan["predicted_seconds"]
        self.write_data(plan)
        run(meshc(), "build", spec, *options, f"{folder}/run.yaml", "-A", "oversubscribed", "-o", f"{folder}/program")
        self.measured = []

    def write_data(self, plan):
        """Random arrays for all inputs, a batch for each step."""
        random, lines = numpy.random.default_rng(1), []
        for tensor in plan["tensors"]:
            if tensor["kind"] == "input":
                shape = list(tensor["dims"].values())
                if "micro_batch" in tensor["dims"]:  # cut into micro-batches: the batch is both dims together
                    shape[:2] = [shape[0] * shape[1]]
                shape[0] *= STEPS
                numpy.save(f"{self.folder}/{tensor['name']}.npy", random.integers(0, 10, shape).astype(numpy.uint8 if tensor["type"] == "u8" else numpy.int32))
                lines.append(f"  {tensor['name']}: {{ file: {tensor['name']}.npy }}\n")
        with open(f"{self.folder}/run.yaml", "w") as file:
            file.write(f"data:\n{''.join(lines)}train: {{ steps: {STEPS} }}\nlog: {{ every: 1, jsonl: {self.folder}/log.jsonl }}\n")

    def measure(self):
        """Runs it once more."""
        run(self.program, "-n", self.ranks, f"{self.folder}/run.yaml", cwd=self.folder)
        steps = [line["seconds_per_step"] for line in json_lines(f"{self.folder}/log.jsonl") if "seconds_per_step" in line]
        os.remove(f"{self.folder}/log.jsonl")
        self.measured.append(statistics.median(steps[FIRST:]))

    def seconds(self):
        """The median of its runs."""
        return statistics.median(self.measured)
