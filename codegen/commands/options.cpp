#include "codegen/commands/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "codegen/commands/command.h"
#include "meshrt/run_file.h"
#include "meshrt/run_keys.h"

namespace mesh {

namespace fs = std::filesystem;

namespace {

bool is_yaml(const std::string& argument) { return argument.ends_with(".yaml") || argument.ends_with(".yml"); }

/// UsageError for what is neither a file nor KEY=VALUE, where a key of the run file seems to be meant: `steps`,
/// `train.steps:10`.
void refuse_bare_key(const std::string& argument) {
  const std::string name = argument.substr(0, argument.find(':'));
  std::error_code ignored;
  if (fs::exists(argument, ignored)) return;
  const size_t dot = name.rfind('.');
  std::vector<std::string> keys = meshrt::run_keys_called(name.substr(dot + 1));
  if (dot != std::string::npos) std::erase_if(keys, [&](const std::string& key) { return key != name; });
  if (keys.empty()) return;
  const std::string value = name == argument ? "VALUE" : argument.substr(name.size() + 1);
  for (std::string& key : keys) key += "=" + value;
  throw UsageError(fmt::format("{}: a key of the run file is set by KEY=VALUE: did you mean `{}`?", argument,
                               fmt::join(keys, "` or `")));
}

template <class T>
std::string joined(const std::map<std::string, T>& settings) {
  std::string text;
  for (const auto& [name, value] : settings) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  return text;
}

}  // namespace

void OutputOptions::declare(CLI::App& app, bool with_json) {
  app.add_option("--color", color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN");
  app.add_option("--diagnostics", diagnostics, "text, or json: an object a line on stderr")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("FORM");
  if (with_json) app.add_flag("--json", json, "print the result as JSON");
}

bool OutputOptions::colored(int descriptor) const {
  if (color != "auto") return color == "always";
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  if (set("NO_COLOR")) return false;
  if (set("CLICOLOR_FORCE") && std::string(std::getenv("CLICOLOR_FORCE")) != "0") return true;
  const char* terminal = std::getenv("TERM");
  return isatty(descriptor) == 1 && (terminal == nullptr || std::string(terminal) != "dumb");
}

void SpecOptions::declare(CLI::App& app, bool with_run_file) {
  runs = with_run_file;
  app.add_option("spec", arguments,
                 runs ? "the spec, files with more layouts, a run file (.yaml), key=value of the run file"
                      : "the spec, and files with more layouts")
      ->required()
      ->type_name(runs ? "SPEC [LAYOUTS.mesh] [RUN.yaml] [KEY=VALUE...]" : "SPEC [LAYOUTS.mesh]");
  app.add_option("--set", sets, "another size for a dim, another number for a const")
      ->type_name("NAME=NUMBER")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--mesh", axes, "other sizes for the layout's mesh; an axis not named becomes 1")
      ->type_name("AXIS=N,...")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("-n", ranks, "number of ranks: fills the mesh axis written `*`")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  app.add_option("--layout", layout, "the layout (default: the one called default, else the only one)")
      ->type_name("NAME");
  app.add_option("--model", model, "the model, where the spec has several")->type_name("NAME");
  app.add_option("--machine", machine, "machine description whose costs decide placements")->type_name("FILE");
  app.add_option("--memory", memory, "memory of a rank, in place of what the machine says: warns where more is held")
      ->check([](const std::string& text) {
        return parse_bytes(text) ? "" : "a size such as 16GiB, 500MiB or 64GB is expected, not `" + text + "`";
      })
      ->type_name("SIZE");
  app.add_option("--precision", precision, "f32, bf16, f16, a `precision` of the spec, or f64 for tests")
      ->type_name("NAME");
  if (runs)
    app.add_flag("--find-nonfinite", find_nonfinite,
                 "look at every value as it is made: the first NaN or infinity ends the run with its name (slower)");
  app.add_option("-W,--warn", warned, "a lint becomes a warning")
      ->type_name("LINT")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("-A,--allow", allowed, "a lint is not reported")
      ->type_name("LINT")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("-D,--deny", denied, "a lint becomes an error")
      ->type_name("LINT")
      ->take_all()
      ->allow_extra_args(false);
}

std::vector<std::string> SpecOptions::take_names() {
  const auto is_name = [&](const std::string& argument) {
    return !argument.ends_with(".mesh") && !(runs && (is_yaml(argument) || meshrt::is_override(argument)));
  };
  std::vector<std::string> names;
  std::ranges::copy_if(arguments, std::back_inserter(names), is_name);
  std::erase_if(arguments, is_name);
  return names;
}

std::vector<std::string> SpecOptions::spec_files() const {
  std::vector<std::string> files;
  for (const std::string& argument : arguments)
    if (!is_yaml(argument) && !meshrt::is_override(argument)) files.push_back(argument);
  if (runs) std::ranges::for_each(files, refuse_bare_key);
  if (files.empty()) throw UsageError("no spec given: expected a .mesh file");
  return files;
}

std::string SpecOptions::run_file() const {
  std::string found;
  for (const std::string& argument : arguments) {
    if (!is_yaml(argument) || meshrt::is_override(argument)) continue;
    if (!found.empty()) throw UsageError(fmt::format("two run files given: {} and {}", found, argument));
    found = argument;
  }
  if (!found.empty()) return found;
  fs::path beside(spec_files().front());
  beside.replace_extension(".yaml");
  std::error_code ignored;
  return fs::is_regular_file(beside, ignored) ? beside.string() : "";
}

std::vector<std::string> SpecOptions::overrides() const {
  std::vector<std::string> found;
  for (const std::string& argument : arguments)
    if (meshrt::is_override(argument)) found.push_back(argument);
  return found;
}

CompileRequest SpecOptions::request() const {
  if (const auto given = overrides(); !runs && !given.empty())
    throw UsageError(
        fmt::format("{}: this command reads no run file, whose keys KEY=VALUE sets; "
                    "the size of a dim is set by `--set DIM=N`",
                    given.front()));
  if (const auto given = std::ranges::find_if(arguments, is_yaml); !runs && given != arguments.end())
    throw UsageError(fmt::format("{}: this command reads no run file: leave it out", *given));
  CompileRequest request;
  request.files = spec_files();
  request.model = model;
  request.layout = layout;
  request.precision = precision;
  request.set = parse_numbers(sets);
  request.mesh = parse_sizes(axes);
  if (ranks > 0) request.ranks = ranks;
  request.machine_file = machine;
  request.memory = parse_bytes(memory);
  return request;
}

std::string SpecOptions::canonical_command() const {
  std::string command = "meshc build";
  for (const std::string& file : spec_files()) command += " " + fs::path(file).filename().string();
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) command += fmt::format(" {} {}", option, value);
  };
  add("--model", model);
  add("--layout", layout);
  add("--mesh", joined(parse_sizes(axes)));
  add("-n", ranks > 0 ? std::to_string(ranks) : "");
  add("--set", joined(parse_numbers(sets)));
  add("--precision", precision);
  add("--machine", fs::path(machine).filename().string());
  add("--memory", memory);
  if (find_nonfinite) command += " --find-nonfinite";
  return command;
}

namespace {

/// {name, digits} of each "name=digits"; the digits without `_`.
std::vector<std::pair<std::string, std::string>> assignments(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const std::string& text : texts) {
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find(',', at), text.size());
      const std::string one = text.substr(at, end - at);
      at = end + 1;
      const size_t equals = one.find('=');
      std::string digits = equals == std::string::npos ? "" : one.substr(equals + 1);
      std::erase(digits, '_');
      found.emplace_back(one.substr(0, equals), digits);
    }
  }
  return found;
}

/// Whether the whole text is a number of the type.
template <class T>
bool reads_as(const std::string& digits, T& value) {
  const auto [stopped, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return !digits.empty() && error == std::errc() && stopped == digits.data() + digits.size();
}

}  // namespace

std::vector<std::pair<std::string, int64_t>> parse_axes(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, int64_t>> sizes;
  for (const auto& [name, digits] : assignments(texts)) {
    int64_t value = 0;
    if (name.empty() || !reads_as(digits, value) || value < 1)
      throw UsageError(fmt::format("--mesh {}={}: expected AXIS=N with a whole number from 1", name, digits));
    for (const auto& [other, before] : sizes)
      if (other == name && before != value)
        throw UsageError(fmt::format("--mesh {}={}: `{}` is {} already; give one of them", name, value, name, before));
    sizes.emplace_back(name, value);
  }
  return sizes;
}

std::string is_positive(const std::string& text) {
  double number = 0;
  const bool is_number = CLI::detail::lexical_cast(text, number);
  return is_number && number > 0 && std::isfinite(number) ? "" : fmt::format("{} is no number above 0", text);
}

std::map<std::string, int64_t> parse_sizes(const std::vector<std::string>& texts) {
  std::map<std::string, int64_t> sizes;
  for (const auto& [name, size] : parse_axes(texts)) sizes[name] = size;
  return sizes;
}

std::map<std::string, std::string> parse_numbers(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> numbers;
  for (const auto& [name, digits] : assignments(texts)) {
    double value = 0;
    if (name.empty() || !reads_as(digits, value) || !std::isfinite(value))
      throw UsageError(
          fmt::format("--set {}={}: expected NAME=NUMBER, the size of a dim or the value of a const", name, digits));
    numbers[name] = digits;
  }
  return numbers;
}

}  // namespace mesh
