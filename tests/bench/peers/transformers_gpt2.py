#!/usr/bin/python3
"""The peer of tests/bench/generate: GPT-2 of Hugging Face's transformers (eager attention, f32, dynamic cache), greedy, asleep until it is asked.

  transformers_gpt2.py MODEL.safetensors THREADS

A line of JSON on standard input, {"prompts": [[token, ...], ...], "tokens": N}, is answered by one: {"seconds": S, "tokens": [[token, ...], ...]}.
Prompts are as long as each other; N tokens are written behind each. The first line printed says that it is ready.
"""
import json
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = sys.argv[2]
import torch
import transformers

from weights_file import read_safetensors


def load(path):
    """The model with the weights of a file, whose sizes are those of GPT-2 of 124 million parameters."""
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(attn_implementation="eager", bos_token_id=None, eos_token_id=None))
    weights = {f"transformer.{name}": torch.from_numpy(array) for name, array in read_safetensors(path).items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:  # which is wte
        sys.exit(f"transformers_gpt2.py: tensors missing: {missing}, unexpected: {unexpected}")
    model.tie_weights()
    return model.eval()


def answer(model, request):
    prompts = torch.tensor(request["prompts"])
    start = time.perf_counter()
    with torch.inference_mode():
        out = model.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=False, min_new_tokens=request["tokens"], max_new_tokens=request["tokens"])
    return {"seconds": time.perf_counter() - start, "tokens": out[:, prompts.shape[1]:].tolist()}


def main():
    torch.set_num_threads(int(sys.argv[2]))
    transformers.logging.set_verbosity_error()
    model = load(sys.argv[1])
    print(json.dumps({"ready": f"transformers {transformers.__version__}, PyTorch {torch.__version__}"}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(model, json.loads(line))), flush=True)
    os._exit(0)  # threads that PyTorch leaves running abort a process that ends in its own way, now and then


if __name__ == "__main__":
    main()
