#include "meshrt/run_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "data/data_formats.h"
#include "files/file_bytes.h"
#include "files/yaml_reader.h"
#include "system/suggest.h"

namespace meshrt {

namespace {

namespace fs = std::filesystem;

class RunFileReader {
 public:
  RunFileReader(RunFile& run, const RunText& text, RunErrors& errors, NamedFiles files)
      : run_(run), text_(text), errors_(errors), files_(files) {}

  void read(const YamlNode& root) {
    const MapReader top(&root, "", run_section(""), errors_);
    read_data(top.find("data"));
    read_validation(top.find("validation"));
    read_train(top.find("train"));
    read_checkpoint(top.find("checkpoint"));
    read_log(top.find("log"));
    read_outputs(top.find("output"));
    run_.folder = MapReader(top.find("run"), "run", run_section("run"), errors_).text("dir");
    check_judged();
    run_.written = tree_text(root, {});
    run_.resolved = tree_text(root, paths_);
  }

 private:
  void read_data(const YamlNode* node) {
    const MapReader inputs(node, "data", run_section("data"), errors_);
    if (node == nullptr) return;
    for (const auto& entry : node->entries) run_.data.push_back(read_source(entry, "data"));
    check_sources(run_.data, "data");
  }

  void read_validation(const YamlNode* node) {
    if (node == nullptr || node->kind == YamlNode::Kind::null) return;
    const MapReader map(node, "validation", run_section("validation"), errors_);
    Validation& validation = run_.validation;
    validation.mark = node->mark;
    validation.every = map.whole("every");
    validation.steps = map.whole("steps");
    const Given<bool> whole = map.truth("whole", false);
    if (whole.value && validation.steps.given())
      errors_.add(whole.mark, "`validation` has both `whole` and `steps`", "the whole file, or so many batches of it");
    for (const auto& entry : node->entries) {
      if (std::ranges::count(run_section("validation").keys, entry.key, &RunKey::name) > 0) continue;
      validation.data.push_back(read_source(entry, "validation"));
    }
    complete_validation();
  }

  // An input that validation does not name is read as in training; of one that it names, what it does not say but the
  // part of the file.
  void complete_validation() {
    std::vector<Source>& sources = run_.validation.data;
    for (const Source& training : run_.data) {
      const auto named =
          std::find_if(sources.begin(), sources.end(), [&](const Source& s) { return s.input == training.input; });
      if (named == sources.end()) {
        sources.push_back(training);
        continue;
      }
      const bool own = named->file.given() || named->of.given() || named->mix.text >= 0;
      if (!own) named->file = training.file, named->of = training.of;
      if (!own && training.mix.text >= 0) take_over_mixture(*named, training);
      if (!named->type.given() && !named->of.given()) named->type = training.type;
      if (!named->tokenizer.given() && !named->of.given()) named->tokenizer = training.tokenizer;
      if (!named->window.given() && !named->of.given()) named->window = training.window;
      if (!named->of.given()) take_over_lines(*named, training);
      if (!named->shift.given() && named->of.given()) named->shift = training.shift;
    }
    check_sources(sources, "validation");
  }

  static void take_over_lines(Source& source, const Source& training) {
    if (!source.pad.given()) source.pad = training.pad;
    if (!source.start.given()) source.start = training.start;
    if (!source.end.given()) source.end = training.end;
    if (!source.longer.given()) source.longer = training.longer;
  }

  // The same files, of each the part that validation names.
  static void take_over_mixture(Source& source, const Source& training) {
    source.mix = training.mix;
    source.mixture = training.mixture;
    for (FileSource& file : source.mixture) {
      file.from = source.from;
      file.to = source.to;
    }
  }

  Source read_source(const YamlNode::Entry& entry, const std::string& section) {
    const MapReader map(&entry.value, section + "." + entry.key, run_section(section + ".*"), errors_);
    Source source;
    source.input = entry.key;
    source.mark = entry.mark;
    source.file = map.text("file");
    if (entry.value.kind != YamlNode::Kind::map && entry.value.kind != YamlNode::Kind::null)
      source.file.mark = entry.value.mark;  // told already: no second complaint that it has no file
    if (!source.file.value.empty()) resolve_data(source.file, map.path_of("file"));
    source.type = read_type(map);
    read_tokenizer(map, source);
    source.window = map.text("window");
    read_lines(map, source);
    source.from = map.cut("from");
    source.to = map.cut("to");
    if (const YamlNode* mix = map.find("mix")) read_mixture(*mix, map, source);
    source.of = map.text("of");
    source.shift = map.whole("shift");
    if (source.of.given())
      for (const RunKey& key : run_section("data.*").keys)
        if (const YamlNode* other = map.find(key.name); other != nullptr && key.name != "of" && key.name != "shift")
          errors_.add(other->mark, fmt::format("`{}` stands beside `of`", map.path_of(key.name)),
                      fmt::format("`{}` is read from where `{}` is", source.input, source.of.value));
    return source;
  }

  void read_tokenizer(const MapReader& map, Source& source) {
    source.tokenizer = map.text("tokenizer");
    if (source.tokenizer.value.empty()) return;
    resolve_existing(source.tokenizer, map.path_of("tokenizer"));
    if (source.type.given() && source.type.value != FileType::bytes)
      errors_.add(source.type.mark, fmt::format("`{}` stands beside `tokenizer`", map.path_of("type")),
                  "what is tokenized is text");
  }

  static Given<FileType> read_type(const MapReader& map) {
    const Given<int> type = map.word("type");
    return {type.value < 0 ? FileType::detect : static_cast<FileType>(type.value + 1), type.mark};
  }

  // What the entries do not say of their files is as the input says.
  void read_mixture(const YamlNode& node, const MapReader& map, Source& source) {
    source.mix = node.mark;
    if (source.file.given())
      errors_.add(node.mark, fmt::format("`{}` stands beside `file`", map.path_of("mix")), "one file, or several");
    if (source.by_lines())
      errors_.add(node.mark, fmt::format("`{}` stands beside `pad`, `start` or `end`", map.path_of("mix")),
                  "files whose lines are samples are not mixed");
    if (node.kind != YamlNode::Kind::list || node.items.size() < 2)
      return map.mismatch("mix", node, "a list of at least two files with weights");
    const RunSection& section = run_section("data.*.mix");
    for (const YamlNode& item : node.items) {
      const MapReader entry(&item, map.path_of("mix"), section, errors_);
      FileSource file;
      file.mark = item.mark;
      file.file = entry.text("file");
      if (!file.file.value.empty()) resolve_data(file.file, entry.path_of("file"));
      else if (item.kind == YamlNode::Kind::map && entry.find("file") == nullptr)
        errors_.add(item.mark, fmt::format("an entry of `{}` has no `file`", map.path_of("mix")));
      file.weight = entry.positive("weight", 1);
      file.type = read_type(entry);
      if (!file.type.given()) file.type = source.type;
      file.tokenizer = source.tokenizer;
      file.from = entry.cut("from");
      if (!file.from.given()) file.from = source.from;
      file.to = entry.cut("to");
      if (!file.to.given()) file.to = source.to;
      source.mixture.push_back(std::move(file));
    }
  }

  void read_lines(const MapReader& map, Source& source) {
    source.pad = map.whole("pad");
    source.start = map.whole("start");
    source.end = map.whole("end");
    const Given<int> longer = map.word("long");
    source.longer = {longer.value == 1 ? LongLine::cut : LongLine::skip, longer.mark};
    if (source.of.given() || !source.by_lines()) return;
    if (source.window.given())
      errors_.add(source.window.mark, fmt::format("`{}` stands beside `pad`, `start` or `end`", map.path_of("window")),
                  "a sample is a line or a window, not both");
    if (source.type.given() && source.type.value != FileType::bytes)
      errors_.add(source.type.mark, fmt::format("`{}` stands beside `pad`, `start` or `end`", map.path_of("type")),
                  "lines are text");
  }

  // Relative to where it was written, and there.
  void resolve_existing(Given<std::string>& file, const std::string& path, bool or_folder = false,
                        const std::string& expected = "") {
    const fs::path resolved = (fs::path(text_.text(file.mark.text).folder) / file.value).lexically_normal();
    std::error_code error;
    if (!or_folder && fs::is_directory(resolved, error))
      errors_.add(file.mark, fmt::format("`{}`: `{}` is a folder", path, resolved.string()));
    else if (files_ == NamedFiles::must_exist && !fs::exists(resolved, error))
      errors_.add(
          file.mark,
          fmt::format("`{}`: there is no {} `{}`", path, or_folder ? "file or folder" : "file", resolved.string()),
          expected);
    file.value = resolved.string();
    paths_[file.mark] = fs::absolute(resolved, error).lexically_normal().string();
  }

  // A file, or what the names of Megatron's two files begin with.
  void resolve_data(Given<std::string>& file, const std::string& path) {
    const std::string named = (fs::path(text_.text(file.mark.text).folder) / file.value).string();
    file.value += megatron_index_of(named).substr(named.size());
    resolve_existing(file, path);
  }

  void check_sources(const std::vector<Source>& sources, const std::string& section) {
    std::vector<std::string> names;
    for (const Source& source : sources)
      if (!source.of.given()) names.push_back(source.input);
    for (const Source& source : sources) {
      if (errors_.told(source.of.given() ? source.of.mark : source.mark)) continue;  // taken over from training
      const auto needs = [&](const char* key, const Mark& mark, const char* what, const char* why) {
        errors_.add(mark, fmt::format("`{}.{}.{}` needs {}", section, source.input, key, what), why);
      };
      if (source.shift.given() && !source.of.given())
        needs("shift", source.shift.mark, "`of`", "which input is shifted?");
      if (source.longer.given() && !source.of.given() && !source.by_lines())
        needs("long", source.longer.mark, "`pad`, `start` or `end`", "which make every line a sample");
      if (!source.of.given() && !source.file.given() && source.mix.text < 0) {
        errors_.add(source.mark, fmt::format("`{}.{}` says neither `file`, `mix` nor `of`", section, source.input));
      } else if (source.of.given() && std::find(names.begin(), names.end(), source.of.value) == names.end()) {
        const bool chained =
            std::any_of(sources.begin(), sources.end(), [&](const Source& s) { return s.input == source.of.value; });
        errors_.add(source.of.mark,
                    chained ? fmt::format("`{}` is itself of another input", source.of.value)
                            : fmt::format("`{}` has no input `{}`", section, source.of.value),
                    names.empty() ? "" : suggestion(source.of.value, names, "inputs with a file"));
      }
    }
  }

  void read_train(const YamlNode* node) {
    const MapReader map(node, "train", run_section("train"), errors_);
    Train& train = run_.train;
    train.steps = map.whole("steps");
    const Given<int64_t> seed = map.whole("seed", 1);
    train.seed = {static_cast<uint64_t>(seed.value), seed.mark};
    train.shuffle = map.truth("shuffle", false);
    train.rate = map.positive("lr", -1);
    train.params = map.texts("params");
    for (Given<std::string>& file : train.params) resolve_existing(file, map.path_of("params"), true);
    if (const YamlNode* fresh = map.names("fresh"))
      for (const YamlNode& item : fresh->items) train.fresh.push_back({item.scalar, item.mark});
    train.names = map.text("names");
    if (!train.names.value.empty()) resolve_existing(train.names, map.path_of("names"));
    train.partial = map.truth("partial", false);
    for (const Mark& mark : {train.names.mark, train.partial.mark, train.fresh.empty() ? Mark{} : train.fresh[0].mark})
      if (mark.text >= 0 && train.params.empty())
        errors_.add(mark, "`train` says how to read `params`, but not which", "`params: PATH`");
    train.timeout = map.positive("timeout", 0);
    train.max_time = map.duration("max_time", 0);
    const YamlNode* stop = map.find("stop");
    if (stop == nullptr || stop->kind == YamlNode::Kind::null) return;
    const MapReader inside(stop, map.path_of("stop"), run_section("train.stop"), errors_);
    read_judged(*stop, inside, train.stop);
    train.stop.patience = inside.whole("patience");
    if (stop->kind == YamlNode::Kind::map && inside.find("patience") == nullptr)
      errors_.add(stop->mark, "`train.stop` does not say when", "`patience: 5`: after so many evaluations");
  }

  static void read_judged(const YamlNode& node, const MapReader& map, Judged& judged) {
    judged.mark = node.mark;
    judged.metric = map.text("metric");
    const Given<int> mode = map.word("mode");
    judged.largest = {mode.value == 1, mode.mark};
  }

  // What compares evaluations needs some.
  void check_judged() {
    const Validation& validation = run_.validation;
    if (run_.checkpoint.best.given() && !validation.given())
      errors_.add(run_.checkpoint.best.mark, "`checkpoint.best` is that of evaluations, and this run makes none",
                  "`validation: { every: 250 }` makes them");
    if (run_.train.stop.given() && (!validation.given() || !validation.every.given()))
      errors_.add(run_.train.stop.mark,
                  validation.given() ? "`train.stop` compares evaluations, and this run makes one, after its last step"
                                     : "`train.stop` compares evaluations, and this run makes none",
                  "`validation: { every: 250 }` makes them");
  }

  void read_checkpoint(const YamlNode* node) {
    if (node == nullptr || node->kind == YamlNode::Kind::null) return;
    const MapReader map(node, "checkpoint", run_section("checkpoint"), errors_);
    Checkpoint& checkpoint = run_.checkpoint;
    checkpoint.mark = node->mark;
    checkpoint.folder = map.text("dir");
    checkpoint.every = map.whole("every");
    checkpoint.keep = map.whole("keep");
    checkpoint.resume = map.text("resume", "auto");
    if (checkpoint.resume.value != "auto" && checkpoint.resume.value != "never")
      resolve_existing(checkpoint.resume, map.path_of("resume"), true, "auto, never, or the path of a checkpoint");
    checkpoint.asynchronous = map.truth("async", true);
    checkpoint.file_bytes = map.bytes("file_size", default_file_bytes);
    if (const YamlNode* best = map.find("best"); best != nullptr && best->kind != YamlNode::Kind::null)
      read_judged(*best, MapReader(best, map.path_of("best"), run_section("checkpoint.best"), errors_),
                  checkpoint.best);
    if (checkpoint.folder.given()) return;
    for (const Mark& mark : {checkpoint.every.mark, checkpoint.keep.mark, checkpoint.best.mark})
      if (mark.text >= 0)
        errors_.add(mark, "`checkpoint` does not say where",
                    "`dir: out/ckpt`, on the command line `checkpoint.dir=out/ckpt`");
  }

  void read_log(const YamlNode* node) {
    const MapReader map(node, "log", run_section("log"), errors_);
    run_.log.every = map.whole("every", 10);
    run_.log.mean = map.truth("mean", false);
    run_.log.jsonl = map.text("jsonl");
    run_.log.nonfinite = static_cast<Nonfinite>(std::max(0, map.word("nonfinite").value));
    run_.log.profile = map.truth("profile", false);
    read_trace(map.find("trace"));
    if (const YamlNode* watch = map.names("watch"))
      for (const YamlNode& item : watch->items) run_.log.watch.push_back({item.scalar, item.mark});
  }

  void read_trace(const YamlNode* node) {
    if (node == nullptr || node->kind == YamlNode::Kind::null) return;
    const MapReader map(node, "log.trace", run_section("log.trace"), errors_);
    run_.log.trace_file = map.text("file");
    run_.log.trace.mark = node->mark;
    const YamlNode* steps = map.find("steps");
    if (steps == nullptr) {
      if (node->kind == YamlNode::Kind::map)
        errors_.add(node->mark, "`log.trace` does not say of which steps", "`steps: 10..12`");
      return;
    }
    constexpr int64_t most = 1000;  // they are kept until the last
    const auto range = steps->kind == YamlNode::Kind::scalar ? step_range(steps->scalar) : std::nullopt;
    if (!range) return map.mismatch("steps", *steps, "a step or a range of them, such as 10..12");
    if (range->last - range->first >= most)
      errors_.add(steps->mark, fmt::format("`log.trace.steps` are {}; a trace has at most {}",
                                           range->last - range->first + 1, most));
    run_.log.trace = {*range, steps->mark};
  }

  void read_outputs(const YamlNode* node) {
    const MapReader outputs(node, "output", run_section("output"), errors_);
    if (node == nullptr) return;
    for (const auto& entry : node->entries) {
      const MapReader map(&entry.value, "output." + entry.key, run_section("output.*"), errors_);
      run_.outputs.push_back({entry.key, entry.mark, map.whole("every"), map.text("file")});
    }
  }

  RunFile& run_;
  const RunText& text_;
  RunErrors& errors_;
  NamedFiles files_;
  std::map<Mark, std::string> paths_;  // of files that are read, from any folder
};

/// `data.NAME.file=` of the command line stands in place of a `mix` of the run file, and the reverse.
void drop_what_it_replaces(YamlNode& root, std::string_view override_text) {
  const std::string_view path = override_text.substr(0, override_text.find('='));
  const size_t first = path.find('.'), last = path.rfind('.');
  if (first == last || path.substr(0, first) != "data") return;
  const std::string_view key = path.substr(last + 1), other = key == "file" ? "mix" : key == "mix" ? "file" : "";
  YamlNode* node = &root;
  for (const std::string_view name : {path.substr(0, first), path.substr(first + 1, last - first - 1)}) {
    const auto found = std::ranges::find(node->entries, name, &YamlNode::Entry::key);
    if (found == node->entries.end()) return;
    node = &found->value;
  }
  std::erase_if(node->entries, [&](const YamlNode::Entry& entry) { return entry.key == other; });
}

}  // namespace

int64_t Cut::of(int64_t size) const {
  return scale == 0 ? count
                    : static_cast<int64_t>(static_cast<__int128>(size) * count / (static_cast<__int128>(100) * scale));
}

Failure RunFile::error(Mark mark, const std::string& message, const std::string& label) const {
  return {Cause::data, text == nullptr ? message : text->render(mark, message, label)};
}

bool is_override(std::string_view argument) {
  const size_t equals = argument.find('=');
  return equals != std::string_view::npos && argument.find('/') > equals;
}

RunFile parse_run_file(const std::string& name, const std::string& content, const std::string& folder,
                       const std::vector<std::string>& overrides, NamedFiles files) {
  auto text = std::make_shared<RunText>();
  RunErrors errors(*text);
  text->add({name, content, folder});
  YamlNode root = parse_yaml(*text, 0, errors);
  if (root.kind != YamlNode::Kind::map) MapReader(&root, "", run_section(""), errors);  // before a key makes it one
  errors.throw_if_any();  // what follows from a broken text would only confuse
  for (const std::string& override_text : overrides) {
    const int index = text->add({"command line", override_text, ""});
    apply_override(root, *text, index, errors);
    drop_what_it_replaces(root, override_text);
  }
  errors.throw_if_any();
  RunFile run;
  run.path = name;
  RunFileReader(run, *text, errors, files).read(root);
  errors.throw_if_any();
  run.text = std::move(text);
  return run;
}

RunFile read_run_file(const std::string& path, const std::vector<std::string>& overrides, NamedFiles files) {
  if (path.empty()) return parse_run_file("", "", "", overrides, files);
  const auto file = FileBytes::open(path);
  const std::string content(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  return parse_run_file(path, content, fs::path(path).parent_path().string(), overrides, files);
}

void require_steps(const RunFile& run) {
  if (!run.train.steps.given())
    throw Failure(
        Cause::data,
        "the run file does not say how many steps: add `train: { steps: 1000 }`, or `train.steps=1000` on the "
        "command line");
}

}  // namespace meshrt
