"""Few annotations suffice: what a rank sends in a training step, and the operations of its products, where a spec says little of what lies where (inputs
alone, one weight, a late value, the weights and one activation of each layer of a Transformer), beside XLA with the same annotations.

few/xla.json has XLA's numbers, by case: of its host compiler with Shardy's and with GSPMD's propagation, and of its TPU compiler; tests/bench/gspmd measures
them. The better of all is the bound.
"""
import json
import os

from common import Report, meshc
from common import run as execute

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "few")
BOUND = 1.03
SLACK = 64  # bytes: losses and other single numbers

# What sends or multiplies more, and is predicted to take less time than what XLA sends and multiplies would take alone; why.
SPLITS_WORK = "ranks share the work and send what they make; XLA has each of them multiply more of it"
FASTER = {
    "attention late_positions": "keys go round while queries are worked on; XLA has each rank compute what all need",
    "block one_weight": SPLITS_WORK,
    "chain late": "a sum is completed; XLA gathers what it is made of, and each rank multiplies all of it",
    "chain start": SPLITS_WORK,
    "diamond late": SPLITS_WORK,
    "grouped keys": "a sum is completed; XLA gathers what it is made of, and each rank multiplies all of it",
    "mlp both": SPLITS_WORK,
    "mlp last": "samples are split over both axes; XLA has each rank of `model` compute the same",
    "mlp weights": SPLITS_WORK,
}


def kept():
    """{case: {column: {bytes, flops}}}"""
    with open(f"{FOLDER}/xla.json") as file:
        return json.load(file)


def ours(case, folder=FOLDER):
    """(bytes that the rank sends that sends most, operations of its products, seconds) of a case, `spec layout`."""
    spec, layout = case.split()
    plan = json.loads(execute(meshc(), "plan", f"{folder}/{spec}.mesh", "--layout", layout, "-A", "repeated_work", "--json").stdout)
    return plan["communication_bytes"], plan["product_flops_of_a_rank"], plan["predicted_seconds"]


def measures(column):
    """Operations are those of the host's compilers: a TPU's has products that are written as others."""
    return ("bytes",) if column == "tpu" else ("bytes", "flops")


def better(columns):
    """XLA's least bytes, and the least operations of those of its compilers that send so little; where that is the TPU's alone, of the host's with the same
    propagation."""
    least = min(numbers["bytes"] for numbers in columns.values())
    operations = [numbers["flops"] for column, numbers in columns.items() if "flops" in measures(column) and numbers["bytes"] <= BOUND * least + SLACK]
    return least, min(operations, default=columns["host shardy"]["flops"])


def generic():
    """(operations, bytes) a second of the machine for which plans are made."""
    machine = json.loads(execute(meshc(), "machine", "--json").stdout)
    return machine["gflops"]["f32"] * 1e9, machine["node"]["gbs"] * 1e9


def run(small):
    """The same at both sizes: a plan takes no time."""
    report = Report()
    flops_a_second, bytes_a_second = generic()
    for case, columns in kept().items():
        def compare():
            sent, flops, seconds = ours(case)
            bytes_of_xla, flops_of_xla = better(columns)
            said = f"{case}: {sent:,} B of {bytes_of_xla:,} B, {flops / 1e9:.3f} of {flops_of_xla / 1e9:.3f} Gflop"
            if case in FASTER:
                return report.check(f"{said}: seconds, and of these alone ({FASTER[case]})", seconds, flops_of_xla / flops_a_second + bytes_of_xla / bytes_a_second)
            report.check(f"{said}: bytes", sent, BOUND * bytes_of_xla + SLACK)
            report.check(f"{said}: operations", flops, BOUND * flops_of_xla)

        report.attempt(case, compare)
    return report
