#include "meshrt/run_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "driver/file_bytes.h"
#include "driver/suggest.h"
#include "driver/yaml_reader.h"

namespace meshrt {

namespace {

namespace fs = std::filesystem;

class RunFileReader {
 public:
  RunFileReader(RunFile& run, const RunText& text, RunErrors& errors) : run_(run), text_(text), errors_(errors) {}

  void read(const YamlNode& root) {
    const MapReader top(&root, "", {"data", "validation", "train", "checkpoint", "log", "output", "run"}, errors_);
    read_data(top.find("data"));
    read_validation(top.find("validation"));
    read_train(top.find("train"));
    read_checkpoint(top.find("checkpoint"));
    read_log(top.find("log"));
    read_outputs(top.find("output"));
    run_.folder = MapReader(top.find("run"), "run", {"dir"}, errors_).text("dir");
    run_.written = tree_text(root, {});
    run_.resolved = tree_text(root, paths_);
  }

 private:
  void read_data(const YamlNode* node) {
    const MapReader inputs(node, "data", {}, errors_, true);
    if (node == nullptr) return;
    for (const auto& entry : node->entries) run_.data.push_back(read_source(entry, "data"));
    check_sources(run_.data, "data");
  }

  void read_validation(const YamlNode* node) {
    if (node == nullptr || node->kind == YamlNode::Kind::null) return;
    const MapReader map(node, "validation", {}, errors_, true);
    Validation& validation = run_.validation;
    validation.mark = node->mark;
    validation.every = map.whole("every", 1);
    validation.steps = map.whole("steps", 1);
    const Given<int> whole = map.word("whole", {"true", "false"});
    if (whole.given() && whole.value == 0 && validation.steps.given())
      errors_.add(whole.mark, "`validation` has both `whole` and `steps`", "the whole file, or so many batches of it");
    for (const auto& entry : node->entries) {
      if (entry.key == "every" || entry.key == "steps" || entry.key == "whole") continue;
      validation.data.push_back(read_source(entry, "validation"));
    }
    complete_validation();
  }

  // What validation does not say of an input is as in training, but the part of the file; an input that is another
  // one's shifted copy need not be named.
  void complete_validation() {
    std::vector<Source>& sources = run_.validation.data;
    for (const Source& training : run_.data) {
      const auto named =
          std::find_if(sources.begin(), sources.end(), [&](const Source& s) { return s.input == training.input; });
      if (named == sources.end()) {
        if (training.of.given()) sources.push_back(training);
        continue;  // the first value of a state, or an input that is missed when it is to be read
      }
      const bool own = named->file.given() || named->of.given();
      if (!own) named->file = training.file, named->of = training.of;
      if (!named->type.given() && !named->of.given()) named->type = training.type;
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

  Source read_source(const YamlNode::Entry& entry, const std::string& section) {
    const MapReader map(&entry.value, section + "." + entry.key,
                        {"file", "type", "window", "pad", "start", "end", "long", "from", "to", "of", "shift"},
                        errors_);
    Source source;
    source.input = entry.key;
    source.mark = entry.mark;
    source.file = map.text("file");
    if (entry.value.kind != YamlNode::Kind::map && entry.value.kind != YamlNode::Kind::null)
      source.file.mark = entry.value.mark;  // told already: no second complaint that it has no file
    if (!source.file.value.empty()) resolve_existing(source.file, map.path_of("file"));
    const Given<int> type = map.word("type", file_type_names());
    if (type.given())
      source.type = {type.value < 0 ? FileType::detect : static_cast<FileType>(type.value + 1), type.mark};
    source.window = map.text("window");
    read_lines(map, source);
    source.from = read_cut(map, "from");
    source.to = read_cut(map, "to");
    source.of = map.text("of");
    source.shift = map.whole("shift", 0);
    if (source.of.given())
      for (const char* key : {"file", "type", "window", "pad", "start", "end", "long", "from", "to"})
        if (const YamlNode* other = map.find(key))
          errors_.add(other->mark, fmt::format("`{}` stands beside `of`", map.path_of(key)),
                      fmt::format("`{}` is read from where `{}` is", source.input, source.of.value));
    if (source.shift.given() && !source.of.given())
      errors_.add(source.shift.mark, fmt::format("`{}` needs `of`", map.path_of("shift")), "which input is shifted?");
    return source;
  }

  void read_lines(const MapReader& map, Source& source) {
    source.pad = map.whole("pad", 0);
    source.start = map.whole("start", 0);
    source.end = map.whole("end", 0);
    const Given<int> longer = map.word("long", {"skip", "cut"});
    source.longer = {longer.value == 1 ? LongLine::cut : LongLine::skip, longer.mark};
    if (source.of.given()) return;  // told already
    if (longer.given() && !source.by_lines())
      errors_.add(longer.mark, fmt::format("`{}` needs `pad`, `start` or `end`", map.path_of("long")),
                  "which make every line a sample");
    if (!source.by_lines()) return;
    if (source.window.given())
      errors_.add(source.window.mark, fmt::format("`{}` stands beside `pad`, `start` or `end`", map.path_of("window")),
                  "a sample is a line or a window, not both");
    if (source.type.given() && source.type.value != FileType::bytes)
      errors_.add(source.type.mark, fmt::format("`{}` stands beside `pad`, `start` or `end`", map.path_of("type")),
                  "lines are read as bytes");
  }

  static Given<Cut> read_cut(const MapReader& map, std::string_view key) {
    const YamlNode* node = map.find(key);
    if (node == nullptr) return {};
    if (node->kind == YamlNode::Kind::scalar)
      if (const auto value = cut(node->scalar)) return {*value, node->mark};
    map.mismatch(key, *node, "a number of entries, or a share such as `95%`");
    return {{}, node->mark};
  }

  // Relative to where it was written, and there.
  void resolve_existing(Given<std::string>& file, const std::string& path, bool or_folder = false) {
    const fs::path resolved = (fs::path(text_.text(file.mark.text).folder) / file.value).lexically_normal();
    std::error_code error;
    if (!or_folder && fs::is_directory(resolved, error))
      errors_.add(file.mark, fmt::format("`{}`: `{}` is a folder", path, resolved.string()));
    else if (!fs::exists(resolved, error))
      errors_.add(file.mark, fmt::format("`{}`: there is no {} `{}`", path, or_folder ? "file or folder" : "file",
                                         resolved.string()));
    file.value = resolved.string();
    paths_[file.mark] = fs::absolute(resolved, error).lexically_normal().string();
  }

  void check_sources(const std::vector<Source>& sources, const std::string& section) {
    std::vector<std::string> names;
    for (const Source& source : sources)
      if (!source.of.given()) names.push_back(source.input);
    for (const Source& source : sources) {
      if (!source.of.given() && !source.file.given()) {
        errors_.add(source.mark, fmt::format("`{}.{}` says neither `file` nor `of`", section, source.input));
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
    const MapReader map(node, "train",
                        {"steps", "seed", "shuffle", "lr", "params", "names", "partial", "timeout", "max_time"},
                        errors_);
    Train& train = run_.train;
    train.steps = map.whole("steps", 1);
    const Given<int64_t> seed = map.whole("seed", 0, 1);
    train.seed = {static_cast<uint64_t>(seed.value), seed.mark};
    train.shuffle = map.truth("shuffle", false);
    train.rate = map.positive("lr", -1);
    train.params = map.text("params");
    if (!train.params.value.empty()) resolve_existing(train.params, map.path_of("params"), true);
    train.names = map.text("names");
    if (!train.names.value.empty()) resolve_existing(train.names, map.path_of("names"));
    train.partial = map.truth("partial", false);
    for (const Mark& mark : {train.names.mark, train.partial.mark})
      if (mark.text >= 0 && !train.params.given())
        errors_.add(mark, "`train` says how to read `params`, but not which", "`params: PATH`");
    train.timeout = map.positive("timeout", 0);
    if (const YamlNode* time = map.find("max_time")) {
      const auto seconds = time->kind == YamlNode::Kind::scalar ? duration(time->scalar) : std::nullopt;
      if (!seconds || *seconds <= 0) map.mismatch("max_time", *time, "a time such as 23:50:00");
      else train.max_time = {*seconds, time->mark};
    }
  }

  void read_checkpoint(const YamlNode* node) {
    if (node == nullptr || node->kind == YamlNode::Kind::null) return;
    const MapReader map(node, "checkpoint", {"dir", "every", "keep", "resume", "async", "file_size"}, errors_);
    Checkpoint& checkpoint = run_.checkpoint;
    checkpoint.mark = node->mark;
    checkpoint.folder = map.text("dir");
    checkpoint.every = map.whole("every", 1);
    checkpoint.keep = map.whole("keep", 1);
    checkpoint.resume = map.text("resume", "auto");
    if (checkpoint.resume.value != "auto" && checkpoint.resume.value != "never")
      resolve_existing(checkpoint.resume, map.path_of("resume"), true);
    checkpoint.asynchronous = map.truth("async", true);
    checkpoint.file_bytes = map.bytes("file_size", default_file_bytes);
    if (checkpoint.folder.given()) return;
    for (const Mark& mark : {checkpoint.every.mark, checkpoint.keep.mark})
      if (mark.text >= 0) errors_.add(mark, "`checkpoint` does not say where", "`dir: out/ckpt`");
  }

  void read_log(const YamlNode* node) {
    const MapReader map(node, "log", {"every", "jsonl", "watch", "nonfinite", "profile", "trace"}, errors_);
    run_.log.every = map.whole("every", 1, 10);
    run_.log.jsonl = map.text("jsonl");
    run_.log.nonfinite = static_cast<Nonfinite>(std::max(0, map.word("nonfinite", {"stop", "warn", "ignore"}).value));
    run_.log.profile = map.truth("profile", false);
    read_trace(map.find("trace"));
    const YamlNode* watch = map.find("watch");
    if (watch == nullptr || watch->kind == YamlNode::Kind::null) return;
    if (watch->kind != YamlNode::Kind::list) return map.mismatch("watch", *watch, "a list of names");
    for (const YamlNode& item : watch->items) {
      if (item.kind == YamlNode::Kind::scalar) run_.log.watch.push_back({item.scalar, item.mark});
      else map.mismatch("watch", item, "a list of names");
    }
  }

  void read_trace(const YamlNode* node) {
    if (node == nullptr || node->kind == YamlNode::Kind::null) return;
    const MapReader map(node, "log.trace", {"steps", "file"}, errors_);
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
    const MapReader outputs(node, "output", {}, errors_, true);
    if (node == nullptr) return;
    for (const auto& entry : node->entries) {
      const MapReader map(&entry.value, "output." + entry.key, {"every", "file"}, errors_);
      run_.outputs.push_back({entry.key, entry.mark, map.whole("every", 1), map.text("file")});
    }
  }

  RunFile& run_;
  const RunText& text_;
  RunErrors& errors_;
  std::map<Mark, std::string> paths_;  // of files that are read, from any folder
};

}  // namespace

int64_t Cut::of(int64_t size) const {
  return scale == 0 ? count : static_cast<int64_t>(static_cast<__int128>(size) * count / (100 * scale));
}

Failure RunFile::error(Mark mark, const std::string& message, const std::string& label) const {
  return {Cause::data, text == nullptr ? message : text->render(mark, message, label)};
}

bool is_override(std::string_view argument) {
  const size_t equals = argument.find('=');
  return equals != std::string_view::npos && argument.find('/') > equals;
}

RunFile parse_run_file(const std::string& name, const std::string& content, const std::string& folder,
                       const std::vector<std::string>& overrides) {
  auto text = std::make_shared<RunText>();
  RunErrors errors(*text);
  text->add({name, content, folder});
  YamlNode root = parse_yaml(*text, 0, errors);
  errors.throw_if_any();  // what follows from a broken text would only confuse
  for (const std::string& override_text : overrides) {
    const int index = text->add({"command line", override_text, ""});
    apply_override(root, *text, index, errors);
  }
  errors.throw_if_any();
  RunFile run;
  run.path = name;
  RunFileReader(run, *text, errors).read(root);
  errors.throw_if_any();
  run.text = std::move(text);
  return run;
}

RunFile read_run_file(const std::string& path, const std::vector<std::string>& overrides) {
  if (path.empty()) return parse_run_file("", "", "", overrides);
  const auto file = FileBytes::open(path);
  const std::string content(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  return parse_run_file(path, content, fs::path(path).parent_path().string(), overrides);
}

void require_steps(const RunFile& run) {
  if (!run.train.steps.given())
    throw Failure(
        Cause::data,
        "the run file does not say how many steps: add `train: { steps: 1000 }`, or `train.steps=1000` on the "
        "command line");
}

}  // namespace meshrt
