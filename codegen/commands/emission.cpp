#include "codegen/commands/emission.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>

#include "codegen/commands/options.h"
#include "codegen/commands/plan_report.h"
#include "codegen/emit/emit_program.h"

namespace mesh {

namespace fs = std::filesystem;

namespace {

/// ` 'log.watch=["grad_norm", "**.wq"]'`, for a shell and for YAML; nothing where nothing is watched.
std::string watch_text(const std::vector<std::string>& entries) {
  if (entries.empty()) return "";
  return fmt::format(" 'log.watch=[\"{}\"]'", fmt::join(entries, "\", \""));
}

}  // namespace

std::string program_name(const SpecOptions& spec) {
  std::string name = fs::path(spec.spec_files().front()).stem().string();
  // It stands in scripts and names of files, where other characters are something else.
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  std::ranges::replace_if(name, std::not_fn(plain), '_');
  if (name.starts_with('-')) name.front() = '_';
  if (name.empty() || name == "_") return "program";
  // What else is in the folder of a program, with its run file (plan.json of a bundle) and in the folder of its run.
  constexpr std::array others = {"plan",    "plan.txt", "plan.json", "spec",
                                 "runtime", "build.sh", "build.log", "README.md"};
  return std::ranges::find(others, name) == others.end() ? name : name + "_program";
}

std::map<std::string, std::string> texts_of_run(const Session& session, const Compiled& compiled) {
  std::map<std::string, std::string> texts = {{"plan.txt", plan_text(compiled, session.sources)},
                                              {"plan.json", plan_json(compiled, session.sources).dump(2) + "\n"}};
  for (FileId file = 1; file <= session.sources.size(); ++file) {
    const fs::path name = session.sources.name(file);
    if (name.extension() == ".mesh") texts["spec/" + name.filename().string()] = session.sources.text(file);
  }
  return texts;
}

std::string emitted_text(const Session& session, const SpecOptions& spec, const Compiled& compiled) {
  EmitOptions options;
  options.spec = fs::path(spec.spec_files().front()).filename().string();
  options.spec_hash = compiled.spec_hash;
  options.command = spec.canonical_command();
  for (const ValuesEntry& entry : session.request.entries)
    for (const std::string& value : entry.values) options.command += fmt::format(" --predict '{}'", value);
  if (session.request.generate) options.command += " --generate";
  options.command += watch_text(session.request.watch);
  options.version = MESHWRIGHT_VERSION;
  options.precision = spec.precision.empty() ? "f32" : spec.precision;
  options.find_nonfinite = spec.find_nonfinite;
  return emit_program(compiled.program, session.sources, options);
}

}  // namespace mesh
