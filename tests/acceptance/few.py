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

# What sends more, or multiplies more, because it takes less time: the layout by which XLA's placement is had, and why.
FASTER = {
    "grouped keys": ("keys_by_hand", "the product with `wo` is split, and its sum completed; XLA gathers its operand, and each rank multiplies all of it"),
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


def better(columns, what):
    """XLA's least."""
    return min(numbers[what] for column, numbers in columns.items() if what in measures(column))


def run(small):
    """The same at both sizes: a plan takes no time."""
    report = Report()
    for case, columns in kept().items():
        def compare():
            sent, flops, seconds = ours(case)
            bytes_of_xla, flops_of_xla = better(columns, "bytes"), better(columns, "flops")
            if case in FASTER:
                layout, why = FASTER[case]
                other_sent, other_flops, other = ours(f"{case.split()[0]} {layout}")
                report.check(f"{case}: bytes of `{layout}`", other_sent, BOUND * bytes_of_xla + SLACK)
                report.check(f"{case}: operations of `{layout}`", other_flops, BOUND * flops_of_xla)
                return report.check(f"{case}: seconds, and of `{layout}` ({why})", seconds, other)
            report.check(f"{case}: {sent:,} B of {bytes_of_xla:,} B", sent, BOUND * bytes_of_xla + SLACK)
            report.check(f"{case}: {flops:,.0f} operations of {flops_of_xla:,}", flops, BOUND * flops_of_xla)

        report.attempt(case, compare)
    return report
