#include "codegen/commands/new/templates.h"

namespace mesh {

const char* const new_spec =
    R"mesh(// @name@.mesh: predicts the next byte of a text from the one before it. A start: change it.
dim batch  = 16
dim seq    = 64
dim vocab  = 256                    // bytes
dim embed  = 64
dim hidden = 4 * embed

model @Model@ {
  input token, target : index(vocab)[batch, seq]

  param table : real[vocab, embed]  = normal(std: 0.1)
  param up    : real[embed, hidden] = normal(std: 0.1)
  param bias  : real[hidden]        = zeros
  param down  : real[hidden, vocab] = normal(std: 0.1)

  h      = take[vocab](table, token)
  logits = dot[hidden](gelu(dot[embed](h, up) + bias), down)
  loss   = mean[batch, seq](cross_entropy[vocab](logits, target))

  metric correct = mean[batch, seq](argmax[vocab](logits) == target)
  minimize loss with adamw(lr: 3e-3)
}

mesh here { data: 2, model: 1 }     // two ranks; another split: --mesh data=1,model=2

layout default on here {
  batch  -> data
  hidden -> model
  vocab  -> model unless hidden
}
)mesh";

const char* const new_run_file = R"yaml(# How @name@.mesh is trained. Every key can be set on the command line too:
#   meshc run @name@.mesh train.steps=1000
data:
  token:  { file: @text@, window: seq, to: 95% }   # bytes; other types: npy, idx, u16, llm.c's
  target: { of: token, shift: 1 }                  # at every place the next byte

validation:                         # metrics over data that is not trained on
  every: 100
  token: { from: 95% }

train:
  steps: 500
  shuffle: true                     # samples in another order each time through
  # seed: 1                         # of the parameters' first values and of random ops
  # lr: 1.0e-3                      # in place of the spec's rate, or of its schedule's peak
  # params: start.safetensors       # first values of parameters: a file, a checkpoint, or a list of them
  # fresh: ["table"]                # parameters that begin as the spec says all the same
  # max_time: "23:50:00"            # ends the run in time, with a checkpoint
  # timeout: 600                    # seconds that ranks wait for each other

checkpoint: { dir: @name@-ckpt, every: 100, keep: 3 }     # the weights; the same command goes on from the last
# run: { dir: runs/first }          # in place of the next of runs/@name@-0001
# output: { u: { every: 100, file: "u_{step}.npy" } }     # an `output u` of the model

log:
  every: 20
  # jsonl: @name@.jsonl             # the same as JSON, an object a line
  # watch: [learning_rate, grad_norm, table]  # besides the rate, norms: of all gradients together, of a parameter
  # profile: true                   # what a step of rank 0 goes to
  # trace: { steps: 10..12 }        # what every rank does in these steps, for ui.perfetto.dev
)yaml";

}  // namespace mesh
