#include "codegen/emit/build.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/emit/child_process.h"
#include "codegen/emit/pattern.h"
#include "codegen/graph/builder.h"
#include "meshrt/failure.h"

namespace mesh {

namespace fs = std::filesystem;
using meshrt::Cause, meshrt::Failure;

namespace {

constexpr int no_tools = 3;  // how build.sh says that it is not the program's fault

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Leaves a file alone that holds the text already, so that its time tells when it changed.
bool write_if_changed(const fs::path& path, const std::string& text) {
  if (fs::exists(path) && read(path) == text) return false;
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush())
    throw Failure(Cause::environment, fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
  return true;
}

}  // namespace

void copy_along(const BuildPlan& plan, const fs::path& folder) {
  for (const auto& [from, name] : plan.along) {
    std::error_code same, error;
    if (fs::equivalent(from, folder / name, same)) continue;
    fs::copy_file(from, folder / name, fs::copy_options::overwrite_existing, error);
    if (error)
      throw Failure(Cause::environment, fmt::format("cannot copy {} to {}: {}", from, plan.folder, error.message()));
  }
}

std::string package_folder(const std::string& runtime) {
  const fs::path folder(runtime);
  std::error_code ignored;
  if (fs::exists(folder / "meson-uninstalled" / "meshrt-uninstalled.pc", ignored)) return folder / "meson-uninstalled";
  if (fs::exists(folder / "lib" / "pkgconfig" / "meshrt.pc", ignored)) return folder / "lib" / "pkgconfig";
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "lib", ignored))
    if (fs::exists(entry.path() / "pkgconfig" / "meshrt.pc", ignored)) return entry.path() / "pkgconfig";
  return "";
}

std::string find_runtime() {
  if (const char* given = std::getenv("MESHRT"); given != nullptr && *given != '\0') return given;
  std::error_code ignored;
  fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (; folder.has_relative_path(); folder = folder.parent_path())
    if (!package_folder(folder).empty()) return folder.string();
  return "";
}

fs::path runtime_library(const std::string& runtime) {
  std::error_code ignored;
  for (const char* library : {"runtime/libmeshrt.a", "lib/libmeshrt.a", "lib/x86_64-linux-gnu/libmeshrt.a",
                              "lib/aarch64-linux-gnu/libmeshrt.a"})
    if (fs::exists(fs::path(runtime) / library, ignored)) return fs::path(runtime) / library;
  return {};
}

std::string relocated(const std::string& text, const fs::path& from, const fs::path& to,
                      const std::map<std::string, std::string>& along) {
  static const Pattern section(R"(^([a-z_]+)\s*:)");
  // Groups: what stands before the name and its quote, the key in it, the quote, the name.
  static const std::string value = R"re(\s*:\s*)(["']?)([^],"'{}[[:space:]#]+))re";
  static const Pattern of_data(R"((\b(file|tokenizer))" + value), of_training(R"((\b(params|names))" + value);
  // Of a list of `params`: all of it in brackets, or its head, below which its items stand.
  static const Pattern list(R"re(\bparams\s*:\s*\[([^]]*))re"), head(R"re(\bparams\s*:\s*(#.*)?$)re"),
      listed(R"re(()()(["']?)([^,"'{}[:space:]#]+))re"), item(R"re(^(\s*(-)\s+)(["']?)([^,"'{}[:space:]#]+))re");
  const auto moved = [&](std::string where, const Pattern& names) {
    std::string done;
    for (Pattern::Match match; (match = names.find(where)); where = match.behind) {
      const fs::path named = match.groups[4];
      const fs::path there = fs::absolute(from / named).lexically_normal();
      const auto with_it = along.find(there);
      const fs::path path = with_it != along.end() ? fs::path(with_it->second)
                            : named.is_absolute()  ? named
                                                   : there.lexically_relative(fs::absolute(to));
      done += match.before + match.groups[1] + match.groups[3] + path.string();
    }
    return done + where;
  };
  std::istringstream lines(text);
  std::string result, line;
  const Pattern* file = nullptr;
  bool items = false;
  while (std::getline(lines, line)) {
    if (const Pattern::Match match = section.find(line)) {
      const std::string& name = match.groups[1];
      file = name == "data" || name == "validation" ? &of_data : name == "train" ? &of_training : nullptr;
    }
    items = items && item.find(line);
    const bool training = file == &of_training;
    const Pattern::Match in_brackets = training && !items ? list.find(line) : Pattern::Match{};
    if (items) line = moved(line, item);
    else if (in_brackets)
      line = in_brackets.before + in_brackets.groups[0].substr(0, in_brackets.first_group) +
             moved(in_brackets.groups[1], listed) + moved(in_brackets.behind, of_training);
    else if (file != nullptr) line = moved(line, *file);
    items = items || (training && head.find(line));
    result += line + "\n";
  }
  return result;
}

const char* const choose_vector_width =
    R"sh(# Whole registers, as products use them: gcc's loops take halves on some processors, which takes longer beside those.
case $("$cxx" -dumpmachine) in x86_64*) wide=-mprefer-vector-width=512 ;; *) wide= ;; esac)sh";

std::string build_script(const std::string& name, const std::string& target) {
  return fmt::format(R"sh(#!/bin/sh
# Compiles {0}.cpp to {0}. The runtime is the one in $MESHRT (the folder that it was installed to, or its build folder),
# else the one that pkg-config finds. CXX, CXXFLAGS and TARGET (what -march takes) may be set.
set -eu
cd "$(dirname "$0")"
if [ -n "${{MESHRT:-}}" ]; then
  for folder in "$MESHRT"/meson-uninstalled "$MESHRT"/lib/pkgconfig "$MESHRT"/lib/*/pkgconfig; do
    PKG_CONFIG_PATH=$folder:${{PKG_CONFIG_PATH:-}}
  done
  export PKG_CONFIG_PATH
fi
missing() {{
  echo "$1" >&2
  exit {1}
}}
cxx=${{CXX:-c++}}
command -v "$cxx" >/dev/null || missing "there is no C++ compiler \`$cxx\`: install g++, or set CXX"
command -v pkg-config >/dev/null || missing "there is no pkg-config: install it"
flags=$(pkg-config --cflags --libs --static meshrt) ||
  missing "the runtime was not found: set MESHRT to the folder that it was installed to"
precompiled=$(pkg-config --variable=precompiled meshrt)
{3}
# The numbers must not depend on what the compiler fuses: no -ffast-math, no contraction.
# shellcheck disable=SC2086
exec "$cxx" -std=c++20 -O3 -march="${{TARGET:-{2}}}" $wide -ffp-contract=off -fno-math-errno ${{CXXFLAGS:-}} \
  ${{precompiled:+"-I$precompiled"}} {0}.cpp -o {0} $flags
)sh",
                     name, no_tools, target, choose_vector_width);
}

namespace {

/// A program of the same text is another one: made with an older runtime, or not as the user says now.
bool is_outdated(const fs::path& program) {
  const auto is_set = [](const char* variable) {
    const char* value = std::getenv(variable);
    return value != nullptr && *value != '\0';
  };
  if (std::ranges::any_of(compile_variables, is_set)) return true;
  std::error_code absent;
  const fs::file_time_type made = fs::last_write_time(program, absent);
  if (absent) return true;
  const fs::file_time_type runtime = fs::last_write_time(runtime_library(find_runtime()), absent);
  return !absent && runtime > made;
}

}  // namespace

bool build_program(const BuildPlan& plan) {
  const fs::path folder = fs::absolute(plan.folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Failure(Cause::environment, fmt::format("cannot make the folder {}: {}", plan.folder, error.message()));
  const fs::path source = folder / (plan.name + ".cpp"), script = folder / "build.sh", log = folder / "build.log";
  const fs::path program = folder / plan.name;
  bool changed = write_if_changed(source, plan.text);
  changed |= write_if_changed(script, build_script(plan.name, plan.target));
  fs::permissions(script, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec, fs::perm_options::add,
                  error);
  if (!plan.run_file.empty()) {
    const fs::path from(plan.run_file), beside = folder / (plan.name + ".yaml");
    if (!fs::equivalent(from, beside, error))
      write_if_changed(beside, relocated(read(from), from.parent_path(), folder, plan.along));
  }
  copy_along(plan, folder);
  for (const auto& [name, text] : plan.beside) {
    fs::create_directories((folder / name).parent_path(), error);
    write_if_changed(folder / name, text);
  }
  if (!plan.compile) return true;
  if (!changed && !is_outdated(program) && !fs::exists(log)) return true;

  const std::string runtime = find_runtime();
  const std::map<std::string, std::string> environment =
      runtime.empty() ? std::map<std::string, std::string>{} : std::map<std::string, std::string>{{"MESHRT", runtime}};
  const auto [status, signal] = run_child({"/bin/sh", script}, log, environment);
  if (signal != 0) {
    fmt::print(stderr, "SIG{} has ended the compiler: {} is not built\n", sigabbrev_np(signal), plan.name);
    return false;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == no_tools) {
    std::string messages = read(log);
    while (messages.ends_with('\n')) messages.pop_back();
    fs::remove(log, error);
    throw Failure(Cause::environment, messages);
  }
  if (status != 0) {
    const std::string messages = read(log);
    const bool of_program = messages.find(plan.name + ".cpp:") != std::string::npos;
    if (of_program && messages.find("No space left on device") == std::string::npos)
      internal_error(
          fmt::format("the C++ compiler rejected {}; its messages are in {}", source.string(), log.string()));
    throw Failure(Cause::environment, fmt::format("the C++ compiler fails; its messages are in {}, and begin with\n{}",
                                                  log.string(), messages.substr(0, 2000)));
  }
  fs::remove(log, error);
  return true;
}

}  // namespace mesh
