// fmt.cpp: `meshc fmt FILE...`: specs in one look, written back in place.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/options.h"
#include "frontend/format/format.h"
#include "frontend/render.h"
#include "meshrt/output_path.h"

namespace mesh {

namespace {

struct FmtOptions {
  OutputOptions output;
  std::vector<std::string> files;
  bool check = false;
};

/// Writes through a file beside it, so that nothing is lost when the disk is full.
bool replace_file(const std::string& name, const std::string& text) {
  const std::string path = meshrt::output_path(name);
  const std::string beside = path + ".formatted";
  {
    std::ofstream file(beside, std::ios::binary);
    file << text;
    if (!file.flush()) {
      std::filesystem::remove(beside);
      return false;
    }
  }
  std::error_code failed;
  std::filesystem::permissions(beside, std::filesystem::status(path).permissions(), failed);
  std::filesystem::rename(beside, path, failed);
  return !failed;
}

/// Formats one file; `-` is standard input, and its text goes to standard output.
int format_one(const std::string& path, const FmtOptions& options) {
  SourceMap sources;
  DiagnosticSink sink;
  std::optional<FileId> file;
  std::string why;
  if (path == "-") {
    const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    file = sources.add("<stdin>", text);
  } else {
    file = sources.load(path, why);
  }
  if (!file) {
    fmt::print(stderr, "error: {}: {}\n", path, why);
    return exit_diagnostics;
  }
  const std::optional<std::string> text = format_text(*file, sources, sink);
  if (!text) {
    RenderOptions render;
    render.colour = options.output.colored(2);
    fmt::print(stderr, "{}", render_all(sink, sources, render));
    return exit_diagnostics;
  }
  const bool same = *text == sources.text(*file);
  if (options.check) {
    if (!same) fmt::print("{}\n", path);
    return same ? exit_ok : exit_diagnostics;
  }
  if (path == "-") {
    fmt::print("{}", *text);
  } else if (!same && !replace_file(path, *text)) {
    fmt::print(stderr, "error: {} cannot be written\n", path);
    return exit_run;
  }
  return exit_ok;
}

int run(const FmtOptions& options) {
  int code = exit_ok;
  for (const std::string& path : options.files) code = std::max(code, format_one(path, options));
  return code;
}

}  // namespace

Command fmt_command() {
  return {"fmt",
          "give specs one look",
          "Sets spaces, indentation, blank lines and columns; line ends and comments stay where they are.\n"
          "A file with syntax errors is left alone. Exit code 0: done, or nothing to do; 1: errors, or with --check\n"
          "files that would change, whose names go to stdout.",
          {{"meshc fmt gpt.mesh", "formats the file in place"},
           {"meshc fmt --check specs/*.mesh", "lists files that are not formatted"},
           {"meshc fmt - < gpt.mesh", "from standard input to standard output"}},
          [](CLI::App& app) -> std::function<int()> {
            auto options = std::make_shared<FmtOptions>();
            app.add_option("FILE", options->files, "specs; - is standard input")->required();
            app.add_flag("--check", options->check, "change nothing; list what would change, exit code 1");
            options->output.declare(app, false);
            return [options] { return run(*options); };
          }};
}

}  // namespace mesh
