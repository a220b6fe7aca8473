"""Our kernels on aarch64, where there is none: cross-compiled, with a bundle's own build.sh, and run by an emulator of the processor (qemu-user). The
tests of the kernels compare the level `neon` with `portable` bit by bit; a gpt trains to the losses and parameters of this host, bit by bit. The tile
keeps its sums in registers."""
import glob
import hashlib
import os
import random
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

from common import TOP, Report, json_lines, meshc, scratch, sets
from common import run as execute

SEED = 20261128
TRIPLE = "aarch64-linux-gnu"
COMPILER, EMULATOR = f"{TRIPLE}-g++", "qemu-aarch64"
GOOGLETEST = "/usr/src/googletest"
NEEDED = {COMPILER: f"g++-{TRIPLE}", f"{TRIPLE}-objdump": f"binutils-{TRIPLE}", EMULATOR: "qemu-user"}
KERNEL_TESTS = ["attention", "bf16", "conv", "float16", "gemm", "lanes", "math", "narrow_products", "product_choice", "random", "route", "scratch"]
# There is no OpenBLAS and no oneDNN for that processor here; what a process takes is, under the emulator, also what that has translated; the others take
# minutes each.
LEFT_OUT = ["*ThatBlas*", "ScratchMemory.*", "*OneDnn*", "*OnSeveral*", "*KeysInParts*", "AttentionKernel/1.Masks", "AttentionKernel/2.Masks", "*FewRowsAreRead*", "*LongSequence*", "*NoCacheHolds*"]
FEWEST_TESTS = 90
GPT = dict(batch=4, seq=16, embed=32, heads=4, head_dim=8, layer=2, vocab=64)
STEPS = 4
HARD = "-std=c++20 -ffp-contract=off -fno-math-errno -pthread"


def absent():
    """Why this cannot be tried here, in a few words; None: it can."""
    for program, package in NEEDED.items():
        if not shutil.which(program):
            return f"there is no {program} (Debian: {package})"
    if not os.path.exists(f"{GOOGLETEST}/googletest/src/gtest-all.cc"):
        return "there are no sources of GoogleTest (Debian: googletest)"
    return None if os.path.exists("/usr/include/ucp") else "there are no headers of UCX (Debian: libucx-dev)"


def emulated(*command, **options):
    return execute(EMULATOR, "-L", f"/usr/{TRIPLE}", *command, **options)


def build_runtime(folder, bundle):
    """The runtime by the bundle's script. What surrounds the kernels is not optimized: it runs for a moment."""
    os.makedirs(f"{folder}/ucx/include")
    for name in ("ucp", "ucs", "uct", "ucm"):
        os.symlink(f"/usr/include/{name}", f"{folder}/ucx/include/{name}")
    variables = {"CXX": COMPILER, "UCX": f"{folder}/ucx", "TARGET": "armv8-a"}
    execute("sh", f"{bundle}/runtime/build.sh", env={**variables, "CXXFLAGS": "-O0"}, timeout=3000)
    execute("sh", f"{bundle}/build.sh", env={**variables, "CXXFLAGS": "-O1"}, timeout=1200)


def check_tile(report, bundle):
    """The tile of f32 of whole rows and columns, where the compiler has put it once."""
    text = execute(f"{TRIPLE}-objdump", "-d", "--no-show-raw-insn", "-C", f"{bundle}/runtime/objects/kernels.gemm_kernel.neon.o").stdout
    body = next((part for part in text.split("\n\n") if re.search(r"<void meshrt::neon::tile<float, 6, 4, float, float, meshrt::neon::LeftAlone>\(", part.split("\n", 1)[0])), "")
    lines = body.split("\n")
    sums = [i for i, line in enumerate(lines) if "\tfmla\t" in line]
    report.check("multiplications of the tile by one lane of the left operand", sum(".s[" in lines[i] for i in sums), len(sums), bool(sums) and all(".s[" in lines[i] for i in sums))
    inside = lines[sums[0] : sums[-1]] if sums else []
    report.check("registers of the tile that its loops keep in memory", sum(bool(re.search(r"\t(ld|st)[rp]\tq.*\[sp", line)) for line in inside), 0)


def test_kernels(report, folder, bundle):
    sources = [f"{TOP}/tests/kernels/{name}_test.cpp" for name in KERNEL_TESTS]
    sources += [f"{GOOGLETEST}/googletest/src/gtest-all.cc", f"{GOOGLETEST}/googlemock/src/gmock-all.cc", f"{GOOGLETEST}/googletest/src/gtest_main.cc"]
    include = [f"-I{path}" for path in (f"{bundle}/runtime/include", f"{bundle}/runtime/src", TOP, f"{GOOGLETEST}/googletest", f"{GOOGLETEST}/googletest/include",
                                        f"{GOOGLETEST}/googlemock", f"{GOOGLETEST}/googlemock/include", f"{bundle}/runtime/headers")]
    program = f"{folder}/kernel_tests"
    execute(COMPILER, *HARD.split(), "-O1", "-DFMT_HEADER_ONLY", *include, *sources, f"{bundle}/runtime/libmeshrt.a", "-ldl", "-o", program, timeout=3000)
    shards = os.cpu_count()

    def share(i):
        return emulated(program, f"--gtest_filter=-{':'.join(LEFT_OUT)}", env={"MESHRT_ONEDNN": "/there/is/none", "GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(i)}, timeout=3000, code=None)

    with ThreadPoolExecutor(shards) as pool:
        parts = list(pool.map(share, range(shards)))
    failures = sum((re.findall(r"\[  FAILED  \] (\S+) \(", part.stdout) for part in parts), [])
    passed = sum(len(re.findall(r"\[       OK \]", part.stdout)) for part in parts)
    report.check("tests of kernels that fail under the emulator", len(failures), 0, all(part.returncode == 0 for part in parts))
    for part in parts:
        if part.returncode != 0:
            print(part.stdout[-3000:] + part.stderr[-1000:])
    report.check("tests of kernels that pass under the emulator, at least", passed, FEWEST_TESTS, passed >= FEWEST_TESTS)
    refused = emulated(program, "--gtest_filter=ProductChoice.IsToldAsItIs", env={"MESHRT_ISA_LEVEL": "avx2"}, code=None)
    report.true("a level of another processor is refused", "it may be `portable` or `neon`" in refused.stdout + refused.stderr)


def trained(folder, name, run):
    """Losses of the steps, and a hash of each file of parameters."""
    log, saved = f"{folder}/{name}.jsonl", f"{folder}/{name}.saved"
    run("-n", 2, "--threads", f"{folder}/run.json", f"train.steps={STEPS}", "log.every=1", f"log.jsonl={log}", f"checkpoint.dir={saved}", timeout=1200)
    hashes = {}
    for path in glob.glob(f"{saved}/**/*.safetensors", recursive=True):
        with open(path, "rb") as file:
            hashes[os.path.relpath(path, saved)] = hashlib.sha256(file.read()).hexdigest()
    return [line["loss"] for line in json_lines(log) if "loss" in line], hashes


def check_training(report, folder, bundle):
    draw = random.Random(SEED)
    with open(f"{folder}/tokens.bin", "wb") as file:
        file.write(b"".join(draw.randrange(GPT["vocab"]).to_bytes(2, "little") for _ in range(GPT["batch"] * GPT["seq"] * 10 + 1)))
    with open(f"{folder}/run.json", "w") as file:
        file.write('{"data": {"token": {"file": "tokens.bin", "type": "u16", "window": "seq"}, "target": {"of": "token", "shift": 1}}}\n')
    info = emulated(f"{bundle}/gpt", "--info").stdout
    report.true("products are ours, by NEON", "own neon" in info, info)
    execute(meshc(), "build", f"{TOP}/specs/gpt.mesh", "-o", f"{folder}/here", "--mesh", "data=2", *sets(**GPT))
    here = trained(folder, "here", lambda *options, **more: execute(f"{folder}/here/gpt", *options, env={"MESHRT_GEMM": "own"}, **more))
    for level in ("neon", "portable"):
        there = trained(folder, level, lambda *options, **more: emulated(f"{bundle}/gpt", *options, env={"MESHRT_GEMM": "own", "MESHRT_ISA_LEVEL": level}, **more))
        report.check(f"{level}: losses of {STEPS} steps against this host's, bit by bit", there[0], here[0], len(here[0]) == STEPS and here[0] == there[0])
        report.true(f"{level}: parameters and moments against this host's, bit by bit", here[1] and here[1] == there[1], f"{len(here[1])} files")


def run(small):
    report = Report()
    why_not = absent()
    if why_not:
        report.skip("neon", why_not)
        return report
    print(f"seed {SEED}")
    with scratch() as folder:
        bundle = f"{folder}/bundle"

        def build():
            execute(meshc(), "build", f"{TOP}/specs/gpt.mesh", "-o", bundle, "--bundle", "--mesh", "data=2", *sets(**GPT))
            build_runtime(folder, bundle)

        failed = report.failed
        report.attempt("the runtime and a program are cross-compiled", build)
        if report.failed == failed:
            report.attempt("the tile", lambda: check_tile(report, bundle))
            report.attempt("training", lambda: check_training(report, folder, bundle))
            report.attempt("tests of kernels", lambda: test_kernels(report, folder, bundle))
    return report
