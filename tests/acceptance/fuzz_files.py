"""Mutants of run files, maps of names, safetensors, token files, arrays and flight recorders, and of what launchers say to each other, under the address and
undefined sanitizers: each is taken or refused with a message; no crash, no hang, nothing read out of bounds, nobody let in without the job's token."""
import glob
import math
import os
import re
from concurrent.futures import ThreadPoolExecutor

from common import TOP, Report, scratch
from common import run as execute

SEED = 20261122
KINDS = ("run_file", "run_json", "names", "safetensors", "llm_c", "raw", "megatron", "idx", "npy", "gzip", "flight")
SOCKET = ("door", "coordinator", "link", "orders")
SECONDS = 600  # of a processor, for each kind
PART = 20_000  # mutants of one process


def driver(kind):
    """tests/fuzz/fuzz_files_yaml, _json or fuzz_socket: beside $FUZZ_FILES, or in the test build."""
    folder = os.path.dirname(os.environ.get("FUZZ_FILES") or f"{TOP}/build-test/tests/fuzz/fuzz_files_yaml")
    return f"{folder}/{'fuzz_socket' if kind in SOCKET else 'fuzz_files_json' if kind == 'run_json' else 'fuzz_files_yaml'}"


def fuzz(kind, small):
    """(mutants, accepted, what went wrong)"""
    texts = sorted(glob.glob(f"{TOP}/specs/*.yaml") + glob.glob(f"{TOP}/specs/tour/*.yaml")) if kind == "run_file" else []
    count, seconds = (400, 20) if small else (10**9, SECONDS)
    done = accepted = 0
    with scratch(in_memory=True) as folder:  # a disk is what takes the time of a small file
        while done < count and seconds > 0:
            result = execute(driver(kind), kind, SEED, done, min(PART, count - done), math.ceil(seconds), folder, *texts, code=None, timeout=10 * seconds + 60)
            found = re.search(r"(\d+) mutants, (\d+) accepted, ([\d.]+) s", result.stdout)
            if result.returncode != 0 or not found:
                return done, accepted, result.stderr[-1500:] or f"exit code {result.returncode}"
            done, accepted, seconds = done + int(found[1]), accepted + int(found[2]), seconds - float(found[3])
            if small:
                break
    return done, accepted, ""


def run(small):
    report = Report()
    print(f"seed {SEED}, {'400 mutants' if small else f'{SECONDS} s of a processor'} for each kind")
    with ThreadPoolExecutor(2) as pool:
        for kind, (done, accepted, wrong) in zip(KINDS + SOCKET, pool.map(lambda kind: fuzz(kind, small), KINDS + SOCKET)):
            report.true(f"{kind}: {done} mutants, {accepted} accepted", not wrong and 0 < accepted < done, wrong)
    return report
