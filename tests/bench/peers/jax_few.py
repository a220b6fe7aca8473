#!/usr/bin/env python3
"""What XLA sends for the specs of tests/acceptance/few, from the same annotations: one line of JSON a layout.

  jax_few.py FOLDER [--only SPEC:LAYOUT] [--text FOLDER]

{"case": .., "host shardy": {"bytes": .., "flops": .., "kinds": {..}}, "host gspmd": .., "tpu": ..}, of a device: what it sends, the operations of
its products, how many collectives of which kind; `tpu` where libtpu compiles ahead of time. --text also keeps the
compiled texts. What no annotation names is said to be whole where it is stored (inputs, parameters before and after the step) and left open elsewhere.
"""
import argparse
import collections
import json
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ |= {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": "v4-8", "TPU_WORKER_HOSTNAMES": "localhost", "TPU_STDERR_LOG_LEVEL": "3", "TF_CPP_MIN_LOG_LEVEL": "3"}

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import few_specs
import hlo_bytes
from jax_models import MODELS

jax.config.update("jax_default_matmul_precision", "highest")
LEARNING_RATE = 0.1


def chips(devices):
    """So many TPU cores, which need not be there; nothing where libtpu is missing."""
    try:
        from jax.experimental import topologies
        known = topologies.get_topology_desc("v4:2x2x1", "tpu", chips_per_host_bounds=[2, 2, 1]).devices
    except Exception as problem:  # of many kinds, by what is missing
        print(f"no libtpu: {str(problem)[:200]}", file=sys.stderr)
        return None
    return known[:devices] if len(known) >= devices else None


def compiled(spec, layout, devices):
    """The text that XLA makes of a training step."""
    model = MODELS[os.path.basename(spec).removesuffix(".mesh")]
    with open(spec) as file:
        text = file.read()
    sizes = few_specs.sizes(text)
    axes, pins = few_specs.layouts(text)[layout]
    mesh = Mesh(np.array(devices).reshape(tuple(axes.values())), tuple(axes))

    def sharding(name, dims):
        split = pins.get(name, {})
        return NamedSharding(mesh, PartitionSpec(*(tuple(split[dim]) if dim in split else None for dim in dims.split())))

    def pin(name, dims, value):
        return jax.lax.with_sharding_constraint(value, sharding(name, dims)) if name in pins else value

    def given(of):
        return {name: jax.ShapeDtypeStruct([sizes[d] for d in dims.split()], jnp.int32 if name in model.integers else jnp.float32) for name, dims in of.items()}

    def step(params, inputs):
        known = {f"#{dim}": size for dim, size in sizes.items()}
        loss, gradients = jax.value_and_grad(lambda p: model.loss(p | inputs | known, pin))(params)
        return loss, {name: value - LEARNING_RATE * gradients[name] for name, value in params.items()}

    of_params, of_inputs = ({name: sharding(name, dims) for name, dims in of.items()} for of in (model.params, model.inputs))
    jitted = jax.jit(step, in_shardings=(of_params, of_inputs), out_shardings=(NamedSharding(mesh, PartitionSpec()), of_params), donate_argnums=0)
    return jitted.lower(given(model.params), given(model.inputs)).compile().as_text()


def measured(text, devices, keep=None):
    if keep:
        with open(keep, "w") as file:
            file.write(text)
    program = hlo_bytes.Program(text, devices)
    kinds = collections.Counter()
    for kind, _, times in program.sent:
        kinds[kind] += times
    return {"bytes": program.bytes_sent(), "flops": program.flops, "kinds": dict(kinds)}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("folder")
    options.add_argument("--only", default="")
    options.add_argument("--text")
    arguments = options.parse_args()
    for file in sorted(os.listdir(arguments.folder)):
        name = file.removesuffix(".mesh")
        if name == file or name not in MODELS:
            continue
        with open(f"{arguments.folder}/{file}") as spec:
            layouts = few_specs.layouts(spec.read())
        for layout, (axes, pins) in layouts.items():
            if not pins or not f"{name}:{layout}".startswith(arguments.only):
                continue
            count = int(np.prod(list(axes.values())))
            row = {"case": f"{name} {layout}", "mesh": axes}
            for column, shardy, devices in (("host shardy", True, jax.devices("cpu")[:count]), ("host gspmd", False, jax.devices("cpu")[:count]),
                                            ("tpu", True, chips(count))):
                if devices is None:
                    continue
                jax.config.update("jax_use_shardy_partitioner", shardy)
                keep = arguments.text and f"{arguments.text}/{name}_{layout}_{column.replace(' ', '_')}.txt"
                row[column] = measured(compiled(f"{arguments.folder}/{file}", layout, devices), count, keep)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
