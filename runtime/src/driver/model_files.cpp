#include "driver/model_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "checkpoint/load.h"
#include "data/batches.h"
#include "driver/start.h"
#include "meshrt/failure.h"
#include "meshrt/path_pattern.h"
#include "meshrt/program.h"

namespace meshrt {

namespace {

/// What is said of one tensor, and of several.
struct Note {
  const char *one, *several;
};

void add_note(std::vector<std::string>& notes, const Note& note, const std::string& where,
              const std::vector<std::string>& names) {
  const char* const text = names.size() == 1 ? note.one : note.several;
  if (!names.empty()) notes.push_back(fmt::format(fmt::runtime(text), where, fmt::join(names, ", ")));
}

constexpr Note left = {"`{}` also has {}: left", "`{}` also has {}: left"};
constexpr Note fresh = {"{}: {} keeps its initial value", "{}: {} keep their initial values"};
constexpr Note lacking = {"`{}` lacks {}: it keeps its initial value", "`{}` lacks {}: they keep their initial values"};
constexpr Note unfit = {"`{}` has the state {} in another shape: it has its first value",
                        "`{}` has the states {} in other shapes: they have their first values"};
constexpr Note stateless = {"`{}` lacks the state {}: it has its first value",
                            "`{}` lacks the states {}: they have their first values"};

/// Whether a state was not read.
bool begins(const std::string& state, const Unmatched& unmatched) {
  return std::ranges::any_of(std::array{&unmatched.states, &unmatched.unfit, &unmatched.fresh},
                             [&](const auto* names) { return std::ranges::count(*names, state) > 0; });
}

/// What no file gives: parameters that are to be fresh, and all states, of which a file may lack some. To draw the
/// other parameters, which are read, would take longer than to read them.
void initialise_rest(std::span<const Tensor> tensors, const ModelFiles& files, uint64_t seed) {
  const auto is_fresh = [&](const Tensor& tensor) {
    return std::ranges::any_of(files.fresh,
                               [&](const std::string& pattern) { return path_matches(pattern, tensor.name); });
  };
  std::vector<Tensor> rest;
  std::ranges::copy_if(tensors, std::back_inserter(rest),
                       [&](const Tensor& tensor) { return tensor.role != Role::parameter || is_fresh(tensor); });
  initialise(rest, seed);
}

}  // namespace

std::vector<std::string> paths_of(std::span<const Tensor> tensors, const RunFile& run, const ModelFiles& files) {
  if (!files.paths.empty()) return files.paths;
  const auto is_saved = [](const Tensor& one) { return one.role == Role::parameter || one.role == Role::state; };
  if (std::ranges::none_of(tensors, is_saved)) return {};
  const std::string& folder = run.checkpoint.folder.value;
  if (folder.empty())
    throw Failure(Cause::usage,
                  "which parameters? `--params CHECKPOINT`, a safetensors file, or `checkpoint.dir` of the run file");
  if (!CheckpointFolder(folder).latest())
    throw run.error(run.checkpoint.folder.mark, fmt::format("`{}` holds no checkpoint yet", folder),
                    "`--params` names other parameters");
  return {folder};
}

LoadedParameters load_parameters(Rank& rank, Program& program, const Train& train) {
  LoadOptions options{.what = Loaded::parameters, .partial = train.partial.value, .names = {}, .fresh = {}};
  if (train.names.given()) options.names = RenameMap::read(train.names.value);
  for (const Given<std::string>& pattern : train.fresh) options.fresh.push_back(pattern.value);
  std::vector<std::string> files;
  for (const Given<std::string>& file : train.params) files.push_back(file.value);
  const SavedTensors saved = SavedTensors::open(files);
  const Unmatched unmatched = load_tensors(rank, program.info(), program.tensors(), saved, options);
  std::vector<std::string> notes;
  add_note(notes, lacking, saved.path(), unmatched.missing);
  add_note(notes, left, saved.path(), unmatched.unexpected);
  add_note(notes, fresh, "train.fresh", unmatched.fresh);
  add_note(notes, stateless, saved.path(), unmatched.states);
  add_note(notes, unfit, saved.path(), unmatched.unfit);
  LoadedParameters loaded{fmt::format("{}", fmt::join(notes, "\n")), {}};
  for (const Tensor& tensor : program.tensors())
    if (tensor.role == Role::state && !begins(tensor.name, unmatched)) loaded.states.push_back(tensor.name);
  return loaded;
}

LoadedModel load_model(Rank& rank, Program& program, const RunFile& run, const ModelFiles& files) {
  const std::span<Tensor> tensors = program.tensors();
  initialise_rest(tensors, files, run.train.seed.value);
  std::vector<std::string> inputs;
  for (const Tensor& tensor : tensors)
    if (tensor.role == Role::input) inputs.push_back(tensor.name);
  std::vector<Source> sources = run.data;  // an entry may do without some of the model's inputs
  std::erase_if(sources, [&](const Source& source) {
    return std::ranges::find(tensors, source.input, &Tensor::name) == tensors.end();
  });
  const Batches states(tensors, program.info(), run, sources, "data", inputs);
  states.fill_state();

  LoadedModel loaded{{0, 0, run.train.seed.value, run.train.steps.value}, "", ""};
  const std::vector<std::string> paths = paths_of(tensors, run, files);
  if (paths.empty()) return loaded;
  const SavedTensors saved = SavedTensors::open(paths);
  LoadOptions options{.what = Loaded::model, .partial = false, .names = {}, .fresh = files.fresh};
  if (!files.names.empty()) options.names = RenameMap::read(files.names);
  const Unmatched unmatched = load_tensors(rank, program.info(), tensors, saved, options);

  loaded.from = saved.path();
  if (saved.manifest()) loaded.moment = saved.manifest()->moment;
  begin_states(program, states, {.step = 1, .steps = loaded.moment.steps, .seed = loaded.moment.seed},
               [&](const std::string& path) { return begins(path, unmatched); });
  std::vector<std::string> notes;
  add_note(notes, stateless, saved.path(), unmatched.states);
  add_note(notes, left, saved.path(), unmatched.unexpected);
  add_note(notes, fresh, "--fresh", unmatched.fresh);
  loaded.note = fmt::format("{}", fmt::join(notes, "\n"));
  return loaded;
}

std::string origin_text(const LoadedModel& model) {
  return model.from.empty() ? "" : ", with the parameters of " + model.from;
}

}  // namespace meshrt
