// doctor.cpp: `meshc doctor`: what this machine has for building and running programs, with remedies.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/doctor/findings.h"
#include "codegen/commands/measure/host.h"
#include "codegen/commands/options.h"
#include "codegen/commands/write_file.h"
#include "meshrt/tune.h"

namespace mesh {

namespace {

const char* word(Health health) {
  switch (health) {
    case Health::good: return "ok";
    case Health::slow: return "note";
    default: return "missing";
  }
}

const char* colour(Health health) {
  switch (health) {
    case Health::good: return "\033[32m";
    case Health::slow: return "\033[33m";
    default: return "\033[31m";
  }
}

void print_findings(const std::vector<Finding>& findings, bool coloured) {
  size_t width = 0;
  for (const Finding& one : findings) width = std::max(width, one.subject.size());
  for (const Finding& one : findings) {
    fmt::print("{}{:<8}{}{:<{}}  {}\n", coloured ? colour(one.health) : "", word(one.health), coloured ? "\033[0m" : "",
               one.subject, width, one.found);
    if (!one.remedy.empty()) fmt::print("        {:<{}}  -> {}\n", "", width, one.remedy);
  }
}

int examine(const OutputOptions& output) {
  std::vector<Finding> findings;
  for (const auto& part : {look_at_machine(), look_at_network(), look_at_tools()})
    findings.insert(findings.end(), part.begin(), part.end());
  const bool able = std::ranges::count(findings, Health::missing, &Finding::health) == 0;
  if (output.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Finding& one : findings)
      list.push_back(
          {{"health", word(one.health)}, {"subject", one.subject}, {"found", one.found}, {"remedy", one.remedy}});
    fmt::print("{}\n", nlohmann::json{{"schema", 1}, {"ok", able}, {"findings", list}}.dump(2));
  } else {
    print_findings(findings, output.colored(STDOUT_FILENO));
  }
  return able ? exit_ok : exit_run;
}

nlohmann::json json_of(const meshrt::TunedRow& row) {
  nlohmann::json ratio = row.ratio > 0 ? nlohmann::json(row.ratio) : nlohmann::json();
  return {{"type", row.type}, {"class", row.shape}, {"chosen", row.chosen}, {"ratio", ratio}, {"why_not", row.why_not}};
}

bool is_table(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return meshrt::is_product_table(std::string(std::istreambuf_iterator<char>(in), {}));
}

/// Measures which implementation multiplies matrices fastest here, and writes the table.
int tune(const std::string& file, const OutputOptions& output) {
  require_writable(file);
  if (std::filesystem::exists(file) && !is_table(file))
    throw UsageError(fmt::format("--tune {}: that file is no table of products; name another", file));
  // What was chosen before is not asked: it may be that very file.
  unsetenv("MESHRT_GEMM");
  unsetenv("MESHRT_ISA_LEVEL");
  const auto rows = meshrt::tune_products([&](const meshrt::TunedRow& row) {
    if (output.json) return;
    const std::string ratio = row.ratio > 0 ? fmt::format("{:.2f}", row.ratio) : row.why_not;
    fmt::print("{:<4} {:<13} {:<8} {}\n", row.type, row.shape, row.chosen, ratio);
    std::fflush(stdout);
  });
  write_file(file, text_of(rows, cpu_model()));
  if (output.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const meshrt::TunedRow& row : rows) list.push_back(json_of(row));
    fmt::print("{}\n", nlohmann::json{{"schema", 1}, {"file", file}, {"rows", list}}.dump(2));
  } else {
    const std::string named = file.find('/') == std::string::npos ? "./" + file : file;
    fmt::print("wrote {}: programs keep to it with MESHRT_GEMM={}\n", file, named);
  }
  return exit_ok;
}

}  // namespace

Command doctor_command() {
  return {
      "doctor",
      "look at what this machine has for building and running",
      "`note`: works, with less speed or comfort; `missing`: programs cannot be built or started.\n"
      "Exit code 0: nothing is missing; 3: something is.",
      {{"meshc doctor", "processors, memory, network, compiler, launchers; what to do about each"},
       {"meshc doctor --json", "the same for a program"},
       {"meshc doctor --tune here.table", "who multiplies matrices fastest here; MESHRT_GEMM=./here.table uses it"}},
      [](CLI::App& app) -> std::function<int()> {
        auto output = std::make_shared<OutputOptions>();
        auto file = std::make_shared<std::string>();
        output->declare(app, true);
        app.add_option("--tune", *file,
                       "measure for some seconds which of our kernels, OpenBLAS and oneDNN is the fastest for which "
                       "matrix products, and write that to a file, which MESHRT_GEMM may name")
            ->type_name("FILE");
        return [output, file] { return file->empty() ? examine(*output) : tune(*file, *output); };
      }};
}

}  // namespace mesh
