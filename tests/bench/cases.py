"""What `tests/bench/train` measures: a spec, its weights and data, our program, the PyTorch peer, and the products alone."""
import json
import os
import re
import shutil
import statistics
import subprocess

import numpy as np

import stage_trace
from common import TOP, meshc, run

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 12
PEER_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "4000000000"}


def newest_python():
    own = f"{TOP}/out/torch/bin/python3"
    return own if os.path.exists(own) else "/usr/bin/python3"


def peer_environment(core_type):
    return PEER_ENVIRONMENT | ({"OPENBLAS_CORETYPE": core_type} if core_type else {})


class Case:
    """A program of ours and its peer in a folder. `ranks` ranks of one core each, or as many threads. `ways` are those in which the peer can train; it goes
    `way`."""
    precision, spec_folder, params, steps, ways, way = "f32", HERE, ", params: weights.safetensors", STEPS, [], None
    variables = {}  # of the peer
    threads = 1  # of a rank

    def __init__(self, folder, python, ranks):
        self.folder, self.python, self.ranks = f"{folder}/{type(self).__name__}-{ranks}", python, ranks
        os.makedirs(self.folder)
        self.prepare()
        run(meshc(), "build", f"{self.spec_folder}/{self.spec}.mesh", *self.build_options, "--precision", self.precision, "-o", f"{self.folder}/program")
        with open(f"{self.folder}/run.yaml", "w") as file:
            file.write(f"{self.data}train: {{ steps: {self.steps}{self.params} }}\n"
                       f"log: {{ every: 1, jsonl: {self.folder}/ours.jsonl, profile: true }}\n")

    def ours(self):
        """(losses, median ms of a step, what it went to)"""
        run(f"{self.folder}/program/{self.spec}", "-n", self.ranks, "--threads-per-rank", self.threads, f"{self.folder}/run.yaml")
        with open(f"{self.folder}/ours.jsonl") as lines:
            steps = [json.loads(line) for line in lines]
        steps = [s for s in steps if "loss" in s]
        breakdown = {part: statistics.median(s["breakdown_ms"][part] for s in steps[3:]) for part in steps[-1]["breakdown_ms"]}
        return [s["loss"] for s in steps], statistics.median(s["seconds_per_step"] for s in steps[3:]) * 1e3, breakdown

    def torch(self, core_type, steps=None):
        """(losses, median ms of a step)"""
        out = run(self.python, *self.peer(steps or self.steps), env=peer_environment(core_type) | self.variables, timeout=900).stdout
        return [float(x) for x in re.findall(r"loss ([0-9.]+)", out)], float(re.search(r"median ([0-9.]+) ms", out)[1])

    @property
    def products(self):
        """What tests/bench/products.cpp calls the step."""
        return self.spec

    def floor(self, core_type):
        """ms of processes of one thread each that do the step's products and nothing else, with OpenBLAS."""
        program = f"{self.folder}/floor"
        if not os.path.exists(program):
            run("g++", "-O2", "-std=c++20", f"{HERE}/products.cpp", "-lopenblas", "-o", program)
        parts = [subprocess.Popen(["taskset", "-c", str(rank), program, self.products], stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, **peer_environment(core_type)}) for rank in range(self.ranks)]
        return max(float(re.search(r"median ([0-9.]+) ms", p.communicate()[0])[1]) for p in parts)


class Gpt(Case):
    """gpt2_384.mesh, data parallel; `sequences` a rank."""
    spec, peer_name, ways, way, vocab, sizes = "gpt2_384", "PyTorch", ["ddp", "threads", "compile", "ddp-compile"], "ddp", 4096, ()
    sequences = 2

    def prepare(self):
        self.batch = self.sequences * self.ranks
        self.build_options = ("--mesh", f"data={self.ranks}", "--set", f"batch={self.batch}", *self.sizes)
        self.data = "data:\n  token:  { file: tokens.bin, type: u16, window: seq }\n  target: { of: token, shift: 1 }\n"
        run(self.python, f"{HERE}/peers/torch_gpt2.py", "weights", f"{self.folder}/weights.safetensors", env=self.variables)
        tokens = self.batch * 256 * (self.steps + 1) + 1
        np.random.default_rng(1).integers(0, self.vocab, tokens).astype(np.uint16).tofile(f"{self.folder}/tokens.bin")

    def peer(self, steps):
        return [f"{HERE}/peers/torch_gpt2.py", "train", f"{self.folder}/weights.safetensors", f"{self.folder}/tokens.bin", steps, self.ranks, self.batch, self.way]


class ThreadedGpt(Gpt):
    """The same work on one rank of two threads."""
    sequences, threads = 2 * Gpt.sequences, 2


class LargeGpt(Gpt):
    """The same in the sizes of GPT-2 of 124M parameters."""
    products, steps, vocab, variables = "gpt2_124m", 8, 50257, {"PEER_SIZES": "124M"}
    sizes = tuple(word for size in ("embed=768", "heads=12", "layer=12", "vocab=50257") for word in ("--set", size))


class NarrowGpt(Gpt):
    """The same in bf16."""
    precision, peer_name = "mixed", "PyTorch in bf16"

    def peer(self, steps):
        return [*super().peer(steps), "bf16"]


class PipelinedGpt(Gpt):
    """Sixteen sequences in eight micro-batches, through two stages: 1F1B, whose backward passes send before they compute the weights' gradients."""
    peer_name, micro_batches, backward, ways = "torch.distributed.pipelining", 8, "split", []

    def prepare(self):
        super().prepare()
        self.batch = 2 * self.micro_batches
        with open(f"{self.folder}/stages.mesh", "w") as file:
            file.write(f'mesh stages {{ pipe: {self.ranks} }}\nlayout stages on stages {{ layer -> pipe {{ microbatches: {self.micro_batches}, schedule: "1f1b", backward: "{self.backward}" }} }}\n')
        self.build_options = (f"{self.folder}/stages.mesh", "--layout", "stages", "--set", f"batch={self.batch}")
        np.random.default_rng(1).integers(0, 4096, self.batch * 256 * (STEPS + 1) + 1).astype(np.uint16).tofile(f"{self.folder}/tokens.bin")
        plan = json.loads(run(meshc(), "plan", f"{HERE}/{self.spec}.mesh", *self.build_options, "--json").stdout)
        self.turns = [stage["turns"] for stage in plan["pipeline"]["stages"]]

    def peer(self, steps):
        return [f"{HERE}/peers/torch_pipeline.py", f"{self.folder}/weights.safetensors", f"{self.folder}/tokens.bin", steps, self.batch, self.micro_batches, self.turns[0]]

    def limit(self):
        """ms of a step of the slower stage's passes, beside the turns in which a pipeline of as equal stages fills and empties."""
        run(f"{self.folder}/program/{self.spec}", "-n", self.ranks, f"{self.folder}/run.yaml", f"log.trace.steps={STEPS}", "--run-dir", f"{self.folder}/run")
        slower = max(sum(passes.values()) for passes in stage_trace.work(stage_trace.actions(f"{self.folder}/run")).values())
        shutil.rmtree(f"{self.folder}/run")
        return 1e3 * slower * (self.micro_batches + self.ranks - 1) / self.micro_batches


class WholePipelinedGpt(PipelinedGpt):
    """The same, each backward pass as one."""
    backward = "whole"


class Perceptron(Case):
    """perceptron.mesh, hidden units over ranks; PyTorch with as many threads."""
    spec, peer_name, build_options = "perceptron", "PyTorch, two threads", ()
    data = "data: { x: { file: x.npy }, y: { file: y.npy } }\n"

    def prepare(self):
        run(self.python, f"{HERE}/peers/torch_mlp.py", "weights", f"{self.folder}/weights.safetensors")
        random = np.random.default_rng(1)
        for name in "xy":
            np.save(f"{self.folder}/{name}.npy", random.normal(size=(512, 1024)).astype(np.float32))

    def peer(self, steps):
        return [f"{HERE}/peers/torch_mlp.py", "train", f"{self.folder}/weights.safetensors", f"{self.folder}/x.npy", f"{self.folder}/y.npy", steps, self.ranks]


class Convolution(Case):
    """convolution.mesh, pictures over ranks; PyTorch with as many threads."""
    spec, peer_name, build_options = "convolution", "PyTorch, two threads", ()
    data = "data: { x: { file: x.npy } }\n"

    def prepare(self):
        run(self.python, f"{HERE}/peers/torch_convolution.py", "weights", f"{self.folder}/weights.safetensors")
        np.save(f"{self.folder}/x.npy", np.random.default_rng(1).normal(size=(16, 56, 56, 64)).astype(np.float32))

    def peer(self, steps):
        return [f"{HERE}/peers/torch_convolution.py", "train", f"{self.folder}/weights.safetensors", f"{self.folder}/x.npy", steps, self.ranks]


class ResidualNetwork(Case):
    """specs/resnet.mesh, pictures over ranks; PyTorch with as many threads."""
    spec, spec_folder, peer_name = "resnet", f"{TOP}/specs", "PyTorch, two threads"
    data = "data: { image: { file: images.npy }, label: { file: labels.npy } }\n"

    def prepare(self):
        self.build_options = ("--mesh", f"all={self.ranks}")
        run(self.python, f"{HERE}/peers/torch_resnet.py", "weights", f"{self.folder}/weights.safetensors")
        random, pictures = np.random.default_rng(1), 64 * STEPS
        np.save(f"{self.folder}/images.npy", random.integers(0, 256, (pictures, 28, 28), np.uint8))
        np.save(f"{self.folder}/labels.npy", random.integers(0, 10, pictures, np.int32))

    def peer(self, steps):
        return [f"{HERE}/peers/torch_resnet.py", "train", f"{self.folder}/weights.safetensors", f"{self.folder}/images.npy", f"{self.folder}/labels.npy", steps, self.ranks]


class Experts(Case):
    """specs/mixtral.mesh, lines over ranks; PyTorch with as many threads."""
    spec, spec_folder, peer_name, ways, way = "mixtral", f"{TOP}/specs", "PyTorch, two threads", ["plain", "compile"], "plain"
    data = "data:\n  token:  { file: text.bin, type: bytes, window: seq }\n  target: { of: token, shift: 1 }\n"

    def prepare(self):
        self.build_options = ("--mesh", f"data={self.ranks},model=1")
        run(self.python, f"{HERE}/peers/torch_mixtral.py", "weights", f"{self.folder}/weights.safetensors")
        np.random.default_rng(1).integers(0, 256, 16 * 128 * (self.steps + 1) + 1, np.uint8).tofile(f"{self.folder}/text.bin")

    def peer(self, steps):
        return [f"{HERE}/peers/torch_mixtral.py", "train", f"{self.folder}/weights.safetensors", f"{self.folder}/text.bin", steps, self.ranks, self.way]
