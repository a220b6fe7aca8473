#include "meshrt/run_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "meshrt/data.h"

namespace meshrt {

namespace {

using Kind = RunKey::Kind;

std::vector<RunKey> source_keys() {
  return {{"file", Kind::text, "the file that the input is read from, relative to the run file"},
          {"mix", Kind::files, "several files, each with its weight, in place of `file`"},
          {"type", Kind::word, "the file's format, where its first bytes do not tell", 0, file_type_names()},
          {"tokenizer", Kind::text, "a SentencePiece model: the file is text, read as the model's numbers"},
          {"window", Kind::text, "the input's dim that a window of the file fills"},
          {"pad", Kind::whole, "lines are samples: what fills them up"},
          {"start", Kind::whole, "lines are samples: what stands before each"},
          {"end", Kind::whole, "lines are samples: what stands after each"},
          {"long", Kind::word, "what becomes of a line that is longer than its input", 0, {"skip", "cut"}},
          {"from", Kind::cut, "where the part of the file that is read begins"},
          {"to", Kind::cut, "where it ends"},
          {"of", Kind::text, "another input: this one is read from the same place"},
          {"shift", Kind::whole, "so many entries later"}};
}

std::vector<RunKey> mixture_keys() {
  return {{"file", Kind::text, "the file, relative to the run file"},
          {"weight", Kind::positive, "how often it is drawn from, relative to the others (1)"},
          {"type", Kind::word, "the file's format, where its first bytes do not tell", 0, file_type_names()},
          {"from", Kind::cut, "where the part of the file that is read begins"},
          {"to", Kind::cut, "where it ends"}};
}

std::vector<RunSection> made_sections() {
  return {
      {"",
       {{"data", Kind::section, "where each input is read from, by its name"},
        {"validation", Kind::section, "the evaluation set: what is not said of an input is as in `data`"},
        {"train", Kind::section, "how long, from what, at which rate"},
        {"checkpoint", Kind::section, "what a run saves and goes on from"},
        {"log", Kind::section, "what is told of the steps"},
        {"output", Kind::section, "which outputs of the model are written, by their names"},
        {"run", Kind::section, "where a run is kept"}}},
      {"data", {}, true},
      {"data.*", source_keys()},
      {"data.*.mix", mixture_keys()},
      {"validation",
       {{"every", Kind::whole, "steps between two evaluations; else once, after the last", 1},
        {"steps", Kind::whole, "batches of the set that are read; else all of it", 1},
        {"whole", Kind::truth, "all of it, said in so many words"}},
       true},
      {"validation.*", source_keys()},
      {"validation.*.mix", mixture_keys()},
      {"train",
       {{"steps", Kind::whole, "how many", 1},
        {"seed", Kind::whole, "of every random number (1)"},
        {"shuffle", Kind::truth, "each pass over the samples in an order of its own (false)"},
        {"lr", Kind::positive, "the learning rate, or the peak of the schedule, in place of the spec's"},
        {"params", Kind::text, "safetensors with the parameters to begin with"},
        {"names", Kind::text, "a map file: what the parameters are called there"},
        {"partial", Kind::truth, "whether `params` may lack tensors, or have others (false)"},
        {"timeout", Kind::positive, "seconds a rank waits for another (600)"},
        {"max_time", Kind::duration, "after which the run ends with a checkpoint"}}},
      {"checkpoint",
       {{"dir", Kind::text, "the folder"},
        {"every", Kind::whole, "steps between two", 1},
        {"keep", Kind::whole, "how many stay (all)", 1},
        {"resume", Kind::text, "auto, never, or the path of a checkpoint (auto)"},
        {"async", Kind::truth, "written beside the steps (true)"},
        {"file_size", Kind::bytes, "of one file at most (5 GB)"}}},
      {"log",
       {{"every", Kind::whole, "steps between two lines (10)", 1},
        {"jsonl", Kind::text, "a file of JSON lines"},
        {"watch", Kind::names,
         "what is logged with the metrics: learning_rate, and norms: grad_norm (all gradients together, before "
         "clipping), paths or patterns of parameters, grad(PATH)"},
        {"nonfinite", Kind::word, "what a loss that is not finite does (stop)", 0, {"stop", "warn", "ignore"}},
        {"profile", Kind::truth, "what a step went to (false)"},
        {"trace", Kind::section, "steps of which everything is noted, for a timeline"}}},
      {"log.trace",
       {{"steps", Kind::range, "which: 10, or 10..12"},
        {"file", Kind::text, "where to (trace.json in the run's folder)"}}},
      {"output", {}, true},
      {"output.*",
       {{"every", Kind::whole, "steps between two; else after the last", 1},
        {"file", Kind::text, "a .npy file; {step} in its name stands for the step"}}},
      {"run", {{"dir", Kind::text, "the folder; none: none (a counted one)"}}},
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

std::vector<std::string> run_keys_called(std::string_view name) {
  std::vector<std::string> keys;
  for (const RunSection& section : run_sections()) {
    if (section.path.empty() || section.path.find('*') != std::string::npos) continue;
    for (const RunKey& key : section.keys)
      if (key.name == name && key.kind != Kind::section) keys.push_back(section.path + "." + key.name);
  }
  return keys;
}

}  // namespace meshrt
