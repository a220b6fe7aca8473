// new.cpp: `meshc new NAME`: a spec and a commented run file to start from.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <CLI/CLI.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/new/templates.h"
#include "codegen/commands/options.h"

namespace mesh {

namespace {

namespace fs = std::filesystem;

struct NewOptions {
  OutputOptions output;
  std::string name, text = "text.txt";
};

bool is_word(const std::string& name) {
  const auto good = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0 && std::ranges::all_of(name, good);
}

/// "tiny_net" -> "TinyNet"
std::string model_name(const std::string& stem) {
  std::string name;
  bool begins = true;
  for (const char c : stem) {
    if (c != '_') name += begins ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    begins = c == '_';
  }
  return name;
}

/// Every `KEY` of the text between at signs replaced.
std::string filled(std::string text, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [key, value] : values) {
    const std::string mark = "@" + key + "@";
    for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += value.size())
      text.replace(at, mark.size(), value);
  }
  return text;
}

/// In quotes, with what they need, where YAML could take it for more than a word.
std::string in_yaml(const std::string& text) {
  const auto plain = [](unsigned char letter) { return std::isalnum(letter) || std::strchr("_./", letter); };
  return std::ranges::all_of(text, plain)
             ? text
             : nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

int create(const NewOptions& options) {
  const fs::path path(options.name);
  const std::string stem = path.filename();
  if (!is_word(stem))
    throw UsageError(fmt::format("`{}` cannot be a name: a letter, then letters, digits and `_`", stem));
  const fs::path spec = path.string() + ".mesh", run_file = path.string() + ".yaml";
  for (const fs::path& file : {spec, run_file})
    if (fs::exists(file)) throw UsageError(fmt::format("{} exists already; nothing was written", file.string()));
  const fs::path text = fs::path(options.text).is_absolute() || path.parent_path().empty()
                            ? fs::path(options.text)
                            : fs::absolute(options.text).lexically_relative(fs::absolute(path.parent_path()));
  const std::vector<std::pair<std::string, std::string>> values = {
      {"name", stem}, {"Model", model_name(stem)}, {"text", in_yaml(text.string())}};
  std::error_code failed;
  if (!path.parent_path().empty()) fs::create_directories(path.parent_path(), failed);
  for (const auto& [file, content] : {std::pair(spec, new_spec), std::pair(run_file, new_run_file)}) {
    std::ofstream out(file, std::ios::binary);
    out << filled(content, values);
    if (out.flush()) continue;
    fmt::print(stderr, "error: cannot write {}: {}\n", file.string(), std::strerror(errno));
    return exit_run;
  }
  fmt::print("{}\n{}\n", spec.string(), run_file.string());
  if (!fs::exists(options.text)) fmt::print(stderr, "next: put a text to learn into {}\n", options.text);
  fmt::print(stderr, "next: meshc plan {0}, then meshc run {0}\n", spec.string());
  return exit_ok;
}

}  // namespace

Command new_command() {
  return {"new",
          "write a spec and a commented run file to start from",
          "The model predicts the next byte of a text; it trains as it is. The names of the files go to stdout.\n"
          "Exit code 0: written; 2: one of them exists; 3: they cannot be written.",
          {{"meshc new net", "net.mesh and net.yaml, to learn text.txt"},
           {"meshc new runs/net --text book.txt", "in another folder, from another text"}},
          [](CLI::App& app) -> std::function<int()> {
            auto options = std::make_shared<NewOptions>();
            app.add_option("NAME", options->name, "of the files and the model")->required()->type_name("NAME");
            app.add_option("--text", options->text, "the text to learn (default: text.txt)")->type_name("FILE");
            options->output.declare(app, false);
            return [options] { return create(*options); };
          }};
}

}  // namespace mesh
