"""Bytes that a rank sends in a step, of layouts beside the better of what XLA's two pipelines send (on CPUs, and compiled ahead of time for TPUs) and what
hand-placed values send: at most 1.03 of it.

The better number stands in each row. A row of KNOWN sends more: at most what stands there, and why; a row of FASTER sends more than the layout that reaches
the better number, and is predicted to take less time, and so is one of SENT_LESS_IN. Movements of one tensor are compared in the same way; FASTER_MOVES are those that take less time than the
way which sends less.
"""
import json
import os

from common import TOP, Report, meshc, scratch
from common import run as execute

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layouts")
ZOO = os.path.join(os.path.dirname(FOLDER), "zoo")
GPT = [f"{TOP}/specs/gpt.mesh", f"{FOLDER}/gpt.layouts.mesh"]
MLP = [f"{TOP}/specs/mlp.mesh", f"{FOLDER}/mlp.layouts.mesh"]
BOUND = 1.03
MiB = 1 << 20
LARGE = "batch=8 seq=256 embed=704 heads=44 head_dim=16 vocab=1024"
SIZES = {
    "t5": "batch=24 source=510 target=330 embed=768 heads=12 head_dim=64 ffn=3072 vocab=32000 bucket=32 enc=6 dec=6",
    "llama": "batch=12 seq=2048 head_dim=64 kv=8 group=3 embed=1536 ffn=4096 vocab=30000 layer=12",
    "sinks": "batch=16 seq=1023 embed=512 heads=8 head_dim=64 vocab=8192 layer=8",
    "txl": "batch=16 seq=510 old=509 embed=512 heads=8 head_dim=64 ffn=2048 vocab=8192 layer=8",
    "switch": "group=16 token=1024 embed=512 ffn=2048 vocab=8192 expert=16 room=128 layer=4",
    "switch_unless": "group=12 token=1024 embed=512 ffn=2048 vocab=8192 expert=12 capacity=128 layer=4",
    "postnorm": "batch=16 seq=512 embed=512 heads=8 head_dim=64 ffn=2048 layer=8",
    "lora": "batch=16 seq=512 embed=512 heads=8 head_dim=64 ffn=2048 layer=8 vocab=8192 rank=8",
    "cnn": "batch=16 row=192 column=192 channel=4 mid=32 deep=64 class=10",
    "graph": "node=4000 edge=30000 feature=64 hidden=128 class=10",
    "optim": "batch=48 embed=512 ffn=2048 vocab=8192 seq=128 layer=6",
}


def sent(files, layout=None, mesh=None, sizes=""):
    """Bytes that a rank sends in a step, and the seconds that it is predicted to take."""
    options = [*(["--layout", layout] if layout else []), *(["--mesh", mesh] if mesh else [])]
    plan = json.loads(execute(meshc(), "plan", *files, *options, *[word for size in sizes.split() for word in ("--set", size)], "--json").stdout)
    return plan["communication_bytes"], plan["predicted_seconds"]


def of(name):
    return [f"{FOLDER}/{name}.mesh"]


def zoo(name):
    return [f"{ZOO}/{name}.mesh"]


# name, files, layout, mesh, sizes, the better bytes
ROWS = [
    ("mlp, data", MLP, "data", "all=4", "", 4_884_552),
    ("mlp, model", MLP, "model", "all=4", "", 3_840),
    ("mlp, both", MLP, "both", "rows=2,columns=2", "", 1_629_488),
    ("mlp, weights", MLP, "weights", "rows=2,columns=2", "", 133_632),
    ("mlp, three", MLP, "three", "planes=2,rows=2,columns=2", "", 892_208),
    ("mlp, batch over both axes", MLP, "batch_product", "rows=2,columns=2", "", 4_884_552),
    ("mlp, hidden over both axes", MLP, "hidden_product", "rows=2,columns=2", "", 3_840),
    ("gpt, data", GPT, "data", "data=4", "", 5_223_942),
    ("gpt, megatron", GPT, "tensor_parallel", "data=2,model=2", "", 11_228_192),
    ("gpt, megatron", GPT, "tensor_parallel", "data=2,model=4", "", 15_100_974),
    ("gpt, megatron and ZeRO-1", GPT, "tensor_parallel_zero1", "data=2,model=2", "", 11_294_278),
    ("gpt, ZeRO-1", GPT, "zero1", "data=4", "", 5_125_722),
    ("gpt, ZeRO-3", GPT, "zero3", "data=4", "", 7_488_474),
    ("gpt, ZeRO-3, 4096 wide", GPT, "zero3", "data=8", "embed=4096 heads=32 head_dim=128 vocab=50304", 10.02e9),
    ("gpt, HSDP", GPT, "hsdp", "pod=2,data=4", "", 8_333_403),
    ("gpt, FSDP over both axes", GPT, "fsdp", "data=2,model=4", "", 8_858_409),
    ("gpt, megatron and sequence parallel", GPT, "sequence_parallel", "data=2,model=2", "", 12_969_504),
    ("gpt, megatron and sequence parallel", GPT, "sequence_parallel", "data=2,model=4", "", 17_745_710),
    ("gpt, megatron and sequence parallel, 704 wide", GPT, "sequence_parallel", "data=2,model=4", LARGE, 123.0e6),
    ("gpt, sequence parallel and ZeRO-3", GPT, "sequence_parallel_zero3", "data=2,model=2", "", 13_893_446),
    ("gpt, sequence parallel, a norm pinned whole", GPT, "sequence_parallel_pin", "data=2,model=2", "", 14_704_162),
    ("gpt, weights never move", GPT, "weights_still", "x=2,y=2", "", 36_044_866),
    ("gpt, weights never move", GPT, "weights_still", "x=2,y=4", "", 27_668_553),
    ("gpt, weights gathered", GPT, "weights_gathered", "x=2,y=2", "", 11_892_294),
    ("gpt, weights gathered", GPT, "weights_gathered", "x=2,y=4", "", 15_568_461),
    ("gpt, 2-D finalized", GPT, "finalized", "x=2,y=2", "", 14_605_894),
    ("gpt, 2-D finalized", GPT, "finalized", "x=2,y=4", "", 19_059_021),
    ("gpt, sequence split", GPT, "context", "data=2,model=4", "heads=8 head_dim=16", 11_157_255),
    ("gpt, sequence split and said of key", GPT, "context_key", "data=2,model=4", "heads=8 head_dim=16", 15.3e6),
    ("gpt, sequence split alone", GPT, "context_alone", "ctx=4", "", 15_518_925),
    ("gpt, Ulysses", GPT, "ulysses", "data=2,model=4", "heads=8 head_dim=16", 13_123_335),
    ("gpt, Ulysses over both axes", GPT, "ulysses_both", "data=2,model=4", "heads=8 head_dim=16", 13_606_663),
    ("grouped queries, kv split", of("grouped"), "kv_split", "data=2,model=2", "", 15_622_176),
    ("grouped queries, kv split", of("grouped"), "kv_split", "data=2,model=4", "", 17_329_198),
    ("grouped queries, kv * group split", of("grouped"), "merged", "model=8", "", 38_309_667),
    ("grouped queries, sequence split", of("grouped"), "context", "data=2,model=2", "", 20_802_570),
    ("grouped queries, sequence split and said of key", of("grouped"), "context_key", "data=2,model=2", "", 20_933_642),
    ("vocabulary split", of("vocab"), "v4", "model=4", "", 6_309_888),
    ("vocabulary and batch split", of("vocab"), "v24", "data=2,model=4", "", 36_971_524),
    ("table split by embed", of("vocab"), "e24", "data=2,model=4", "", 132.9e6),
    ("experts, data only", of("moe"), "dp", "data=4", "", 3_151_878),
    ("experts, pinned", of("moe"), "ep", "data=4", "", 798_726),
    ("experts, not pinned", of("moe"), "ep_un", "data=4", "", 599_046),
    ("experts, pinned, ffn split", of("moe"), "ep_tp", "data=4,model=2", "", 1_119_238),
    ("experts over both axes", of("moe"), "ep2", "data=4,model=2", "", 297_479),
    ("next token", of("shift"), "default", "a=8", "", 8_192),
    ("heads split into kv * group", of("split_heads"), "default", "model=8", "", 7),
    ("heads split into kv * group, two axes", of("split_heads"), "axes", "k=4,g=2", "", 7),
    ("heads split into kv * group, said of kv", of("split_heads"), "kvonly", "model=8", "", 7),
    ("a product whose result has its axes swapped", of("swapped_product"), "default", "x=2,y=4", "", 83_886_080),
    ("three products of one value", of("g1_fanout"), "default", "a=2", "", 2_097_152),
    ("a late pin", of("g2_latepin"), "default", "a=4", "", 0),
    ("a chain of products", of("g3_chain"), "default", "a=4", "", 3_145_728),
    ("a residual stream", of("g4_residual"), "params", "a=4", "", 18_874_374),
    ("a diamond", of("g5_diamond"), "default", "a=4", "", 983_040),
    ("a completed value read again", of("g6_partial"), "default", "a=4", "", 3_145_728),
    ("a carry that begins as a number", of("g7_carry"), "default", "a=4", "", 589_830),
    ("a sort and a running sum", of("g8_twoneeds"), "default", "a=8", "", 229_376),
    ("sinks, sequence split", of("sinks"), "seqs", "model=3", SIZES["sinks"], 1_111 * MiB),
    ("sinks, keys split", of("sinks"), "keys", "model=3", SIZES["sinks"], 906 * MiB),
    ("t5, sequences split", zoo("t5"), "sequences", "all=3", SIZES["t5"], 2.8 * 1024 * MiB),
    ("llama, sequence split", zoo("llama"), "positions", "model=3", SIZES["llama"], 4.2 * 1024 * MiB),
    ("llama, sequence parallel", zoo("llama"), "sequence", "data=2,model=2", SIZES["llama"], 5_333_283_856),
    ("post-norm under Megatron", of("postnorm"), "megatron", "model=2", SIZES["postnorm"], 512 * MiB),
    ("low-rank adapters", zoo("lora"), "both", "data=2,model=2", SIZES["lora"], 274 * MiB),
    ("memory of segments under Megatron", zoo("transformer_xl"), "megatron", "all=3", SIZES["txl"], 723 * MiB),
    ("rows of a split table", of("plan_take"), "nodes", "data=3", "", 1.3 * MiB),
    ("graph, nodes split", zoo("graph_network"), "nodes", "data=3", SIZES["graph"], 42.6 * MiB),
    ("graph, owners", zoo("graph_network"), "owners", "data=3", SIZES["graph"], 14_069_166),
    ("switch by two names", zoo("switch"), "exchange", "all=4", SIZES["switch"], 192 * MiB + 24 * MiB),  # four exchanges a layer, and the table's gradient
    ("switch by `unless`", of("switch_unless"), "moe", "all=2", SIZES["switch_unless"], 144 * MiB + 16 * MiB),
    ("convolution, channels split", of("cnn"), "channels", "model=3", SIZES["cnn"], (17 + 96) * MiB),
    ("ZeRO-3 of a tied table", of("optim"), "zero3", "data=2,model=2", SIZES["optim"], 166_103_058),
]


# What is sent today where that is more, and why. None of it may grow.
KNOWN = {
    "heads split into kv * group, said of kv on model=8": (45_063, "four of eight ranks own no kv, which `idle_ranks` tells"),
}
FASTER = {"rows of a split table on data=3": "whole"}
# Rows that share work among ranks and send more for it, and the seconds that they took when they sent no more than the better number.
SENT_LESS_IN = {"sinks, keys split on model=3": 12.9}
FASTER_MOVES = {"slice first": "|x|y * z"}  # the placement by which the better number is reached

# y = 2 * x: dims by size, the mesh, the axes of each dim before and after, the better bytes
MOVES = [
    ("swap, 4 x 4", (64, 64), {"a": 4, "b": 4}, "a|b", "b|a", 1_024),
    ("swap, 2 x 4", (64, 64), {"a": 2, "b": 4}, "a|b", "b|a", 2_048),
    ("swap, 2 x 2", (64, 64), {"a": 2, "b": 2}, "a|b", "b|a", 4_096),
    ("order", (64, 64), {"a": 4, "b": 4}, "a * b|", "b * a|", 1_024),
    ("replace", (64, 64), {"a": 4, "b": 4}, "a|", "b|", 4_096),
    ("inner", (64, 64), {"a": 4, "b": 4}, "a * b|", "b|", 4_096),
    ("outer", (64, 64), {"a": 4, "b": 4}, "a * b|", "|a", 6_144),
    ("apart", (64, 64), {"a": 4, "b": 4}, "a * b|", "b|a", 1_792),
    ("exchange over two axes", (64, 64), {"a": 4, "b": 4}, "a * b|", "|a * b", 960),
    ("exchange beside another", (8, 8, 8), {"x": 2, "y": 2, "z": 2}, "x||y * z", "x|y * z|", 192),
    ("two exchanges", (64, 64, 64), {"a": 4, "b": 4}, "a * b||", "|a|b", 98_304),
    ("cycle, 4 x 4 x 4", (64, 64, 64), {"a": 4, "b": 4, "c": 4}, "a|b|c", "b|c|a", 16_384),
    ("cycle, 2 x 2 x 2", (64, 64, 64), {"a": 2, "b": 2, "c": 2}, "a|b|c", "b|c|a", 131_072),
    ("four axes", (8, 8, 8), {"w": 2, "x": 2, "y": 2, "z": 2}, "|w|x * y * z", "w * x|y|z", 224),
    ("slice first", (8, 8, 8), {"x": 2, "y": 2, "z": 2}, "|x|", "||x * y * z", 384),
]


def moving(sizes, mesh, before, after):
    """The spec of a movement."""
    dims = "pqr"[:len(sizes)]
    pins = ["; ".join(f"{dim} -> {axes or 'none'}" for dim, axes in zip(dims, side.split("|"))) for side in (before, after)]
    return (f"dim {', '.join(f'{dim} = {size}' for dim, size in zip(dims, sizes))}\nmodel Move {{\n  input x : f32[{', '.join(dims)}]\n  y = 2 * x\n  output y\n}}\n"
            f"mesh m {{ {', '.join(f'{axis}: {size}' for axis, size in mesh.items())} }}\nlayout default on m {{ tensor x {{ {pins[0]} }}; tensor y {{ {pins[1]} }} }}\n")


def moved(sizes, mesh, before, after):
    """Bytes and seconds of a movement, as `meshc reshard` answers."""
    dims = "pqr"[:len(sizes)]
    rules = [["; ".join(f"{dim} -> {axes}" for dim, axes in zip(dims, side.split("|")) if axes)] for side in (before, after)]
    options = ["--mesh", ",".join(f"{axis}={size}" for axis, size in mesh.items()), "--shape", ",".join(f"{dim}={size}" for dim, size in zip(dims, sizes)),
               "--from", *rules[0], "--to", *rules[1]]
    answer = json.loads(execute(meshc(), "reshard", *options, "--json").stdout)
    return answer["bytes"], answer["seconds"]


def compare(report, name, bytes_sent, better, seconds):
    said = f"{name}: {bytes_sent:,} B of {better:,.0f} B ({seconds * 1e3:.4g} ms)"
    if name in KNOWN:
        known, why = KNOWN[name]
        report.check(f"{said}, known: {why}", bytes_sent, known)
    else:
        report.check(said, round(bytes_sent / max(better, 1), 3), BOUND)


def run(small):
    """The same rows at both sizes: a plan takes no time."""
    report = Report()
    for name, files, layout, mesh, sizes, better in ROWS:
        def action():
            row = f"{name} on {mesh}"
            bytes_sent, seconds = sent(files, layout, mesh, sizes)
            if row in SENT_LESS_IN:
                return report.check(f"{row}: {bytes_sent:,} B; seconds, and those in which it sent at most {better:,} B", seconds, SENT_LESS_IN[row])
            if row not in FASTER:
                return compare(report, row, bytes_sent, better, seconds)
            other_bytes, other_seconds = sent(files, FASTER[row], mesh, sizes)
            report.check(f"{row}: bytes of `{FASTER[row]}`", round(other_bytes / better, 3), BOUND)
            report.check(f"{row}: seconds, and of `{FASTER[row]}`, which sends less", seconds, other_seconds)

        report.attempt(f"{name} on {mesh}", action)
    with scratch() as folder:
        for name, sizes, mesh, before, after, better in MOVES:
            def move():
                path = f"{folder}/move.mesh"
                with open(path, "w") as file:
                    file.write(moving(sizes, mesh, before, after))
                bytes_sent, seconds = sent([path])
                if name in FASTER_MOVES:
                    via = FASTER_MOVES[name]
                    legs = moved(sizes, mesh, before, via), moved(sizes, mesh, via, after)
                    report.check(f"{name}: bytes by {via}", sum(leg[0] for leg in legs), better)
                    return report.check(f"{name}: seconds, and by {via}, which sends less", seconds, sum(leg[1] for leg in legs))
                compare(report, name, bytes_sent, better, seconds)

            report.attempt(name, move)
    return report
