#include "meshrt/run_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "meshrt/data.h"

namespace meshrt {

namespace {

using KeyKind = RunKey::Kind;

std::vector<RunKey> source_keys() {
  return {{"file", KeyKind::text, "the file that the input is read from, relative to the run file"},
          {"mix", KeyKind::files, "several files, each with its weight, in place of `file`"},
          {"type", KeyKind::word, "the file's format, where its first bytes do not tell", 0, file_type_names()},
          {"tokenizer", KeyKind::text, "a SentencePiece model; it turns the file, which is text, into numbers"},
          {"window", KeyKind::text, "a sample is a window of the file, as long as this dim of the input"},
          {"pad", KeyKind::whole, "each line is a sample; this number fills short ones up"},
          {"start", KeyKind::whole, "each line is a sample; this number stands before it"},
          {"end", KeyKind::whole, "each line is a sample; this number stands after it"},
          {"long", KeyKind::word, "what happens to a line that is longer than its input", 0, {"skip", "cut"}},
          {"from", KeyKind::cut, "reads the file from this entry, or this share of it (its start)"},
          {"to", KeyKind::cut, "reads it up to here (its end)"},
          {"of", KeyKind::text, "another input; this one is read from the same place in its file"},
          {"shift", KeyKind::whole,
           "reads so many entries later than `of`: elements of a text or token file, else rows, or lines (0)"}};
}

std::vector<RunKey> mixture_keys() {
  return {{"file", KeyKind::text, "the file, relative to the run file"},
          {"weight", KeyKind::positive, "how often it is drawn from, relative to the others (1)"},
          {"type", KeyKind::word, "the file's format, where its first bytes do not tell", 0, file_type_names()},
          {"from", KeyKind::cut, "reads the file from this entry, or this share of it (its start)"},
          {"to", KeyKind::cut, "reads it up to here (its end)"}};
}

RunKey metric_key() { return {"metric", KeyKind::text, "the metric by which evaluations are compared (the loss)"}; }

RunKey mode_key() {
  return {"mode", KeyKind::word, "which of its values are better; of the loss the small ones (min)", 0, {"min", "max"}};
}

std::vector<RunSection> made_sections() {
  return {
      {"",
       {{"data", KeyKind::section, "the files that inputs and states are read from, each by its name"},
        {"validation", KeyKind::section,
         "the evaluation set; keys that an input lacks here are those of `data`, but for the part of the file (`from`, "
         "`to`) of an input that is named"},
        {"train", KeyKind::section, "how long, from what, at which rate"},
        {"checkpoint", KeyKind::section, "what a run saves, and from what it goes on"},
        {"log", KeyKind::section, "what the run prints and records"},
        {"output", KeyKind::section, "the outputs of the model that the run writes, each by its name"},
        {"run", KeyKind::section, "the folder that keeps the run"}}},
      {"data", {}, true},
      {"data.*", source_keys()},
      {"data.*.mix", mixture_keys()},
      {"validation",
       {{"every", KeyKind::whole, "steps between two evaluations (one, after the last step)", 1},
        {"steps", KeyKind::whole, "how many batches of the set are read (all)", 1},
        {"whole", KeyKind::truth, "the whole set is read (true without `steps`)"}},
       true},
      {"validation.*", source_keys()},
      {"validation.*.mix", mixture_keys()},
      {"train",
       {{"steps", KeyKind::whole, "how many steps the run makes in all", 1},
        {"seed", KeyKind::whole, "the seed of every random number (1)"},
        {"shuffle", KeyKind::truth, "each pass over the samples has an order of its own (false)"},
        {"lr", KeyKind::positive, "the learning rate, or the peak of its schedule (the spec's)"},
        {"params", KeyKind::texts,
         "safetensors files or checkpoints with the parameters to begin with, each in one of them"},
        {"names", KeyKind::text, "a YAML map `ours: theirs` for the names in `params`"},
        {"fresh", KeyKind::names, "parameters that begin as the spec says, not from `params`: paths or patterns"},
        {"partial", KeyKind::truth, "`params` may lack tensors, or have others (false)"},
        {"timeout", KeyKind::positive, "seconds a rank waits for another (600)"},
        {"max_time", KeyKind::duration, "the run ends after this time, with a checkpoint"},
        {"stop", KeyKind::section, "ends the run when its evaluations get no better"}}},
      {"train.stop",
       {{"patience", KeyKind::whole, "how many evaluations in succession may be no better than the best", 1},
        metric_key(),
        mode_key()}},
      {"checkpoint",
       {{"dir", KeyKind::text, "the folder of its checkpoints"},
        {"every", KeyKind::whole, "steps between two checkpoints (one, after the last step)", 1},
        {"keep", KeyKind::whole, "how many checkpoints stay (all)", 1},
        {"resume", KeyKind::text,
         "`auto`: from the newest in `dir`, if there is one; `never`; or the path of a checkpoint (auto)"},
        {"async", KeyKind::truth, "writes from a copy while steps go on; `false`: steps wait, no copy (true)"},
        {"file_size", KeyKind::bytes,
         "the largest size of one file, but for a tensor that is larger: none is cut (5 GB)"},
        {"best", KeyKind::section, "keeps the checkpoint of the best evaluation, as `best` in `dir`"}}},
      {"checkpoint.best", {metric_key(), mode_key()}},
      {"log",
       {{"every", KeyKind::whole, "steps between two lines of the log (10)", 1},
        {"mean", KeyKind::truth, "a line tells the means of the metrics over the steps since the line before (false)"},
        {"jsonl", KeyKind::text, "a file that gets the lines as JSON, beside the run's own metrics.jsonl"},
        {"watch", KeyKind::names,
         "values to log beside the metrics: `learning_rate`; the norm of all gradients before clipping, `grad_norm`; "
         "the norms of parameters, by path or pattern, and of their gradients, `grad(PATH)`; `loss_scale` (1 where no "
         "loss is scaled), and `skipped_steps`, how many steps were skipped before this one"},
        {"nonfinite",
         KeyKind::word,
         "what happens when the loss is not finite, or, as `evaluate` ends, any metric (stop)",
         0,
         {"stop", "warn", "ignore"}},
        {"profile", KeyKind::truth,
         "prints where the time of a step goes, and which lines of the spec cost most (false)"},
        {"trace", KeyKind::section, "records some steps for a timeline"}}},
      {"log.trace",
       {{"steps", KeyKind::range, "which steps"},
        {"file", KeyKind::text, "the file to write (trace.json in the run's folder)"}}},
      {"output", {}, true},
      {"output.*",
       {{"every", KeyKind::whole, "steps between two files (one, after the last step)", 1},
        {"file", KeyKind::text, "the .npy file to write; `{step}` in its name becomes the step"}}},
      {"run", {{"dir", KeyKind::text, "the folder; `none` keeps nothing (runs/NAME-0001 and so on)"}}},
  };
}

}  // namespace

const std::vector<RunSection>& run_sections() {
  static const std::vector<RunSection> sections = made_sections();
  return sections;
}

const RunSection& run_section(std::string_view path) {
  const auto found = std::ranges::find(run_sections(), path, &RunSection::path);
  if (found == run_sections().end()) throw std::logic_error(fmt::format("run files have no section `{}`", path));
  return *found;
}

std::string said_elsewhere(std::string_view name, std::string_view value) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, name) != words.end();
  };
  const bool number = !value.empty() && value.find_first_not_of("0123456789_") == std::string_view::npos;
  if (is_one_of({"batch", "batch_size"}))
    return fmt::format("a size of the spec: `--set batch={}`, of its first input's first dim", number ? value : "N");
  if (is_one_of({"epochs", "epoch", "num_epochs", "max_epochs"}))
    return fmt::format("`steps` counts batches: samples / batch * {}", number ? value : "epochs");
  if (is_one_of({"learning_rate", "rate"})) return "did you mean `lr`?";
  if (is_one_of({"early_stopping", "early_stop"}))
    return fmt::format("`train: {{ stop: {{ patience: {} }} }}` ends a run that gets no better", number ? value : "N");
  if (is_one_of({"save_best", "save_best_only", "keep_best", "load_best_model_at_end"}))
    return "`checkpoint: { best: { metric: loss } }` keeps the best";
  if (is_one_of({"optimizer", "weight_decay", "momentum", "clip", "schedule", "warmup"}))
    return "the spec says it: `minimize LOSS with OPTIMIZER(...)`";
  if (is_one_of({"layout", "mesh", "precision"}))
    return fmt::format("the program is compiled for it: `meshc run SPEC --{} {}`", name, value.empty() ? "..." : value);
  return "";
}

std::vector<std::string> run_keys_called(std::string_view name) {
  std::vector<std::string> keys;
  for (const RunSection& section : run_sections()) {
    if (section.path.empty() || section.path.find('*') != std::string::npos) continue;
    for (const RunKey& key : section.keys)
      if (key.name == name && key.kind != KeyKind::section) keys.push_back(section.path + "." + key.name);
  }
  return keys;
}

}  // namespace meshrt
