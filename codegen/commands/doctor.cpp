// doctor.cpp: `meshc doctor`: what this machine has for building and running programs, with remedies.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "codegen/commands/command.h"
#include "codegen/commands/doctor/findings.h"
#include "codegen/commands/options.h"

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

}  // namespace

Command doctor_command() {
  return {"doctor",
          "look at what this machine has for building and running",
          "`note`: works, with less speed or comfort; `missing`: programs cannot be built or started.\n"
          "Exit code 0: nothing is missing; 3: something is.",
          {{"meshc doctor", "processors, memory, network, compiler, launchers; what to do about each"},
           {"meshc doctor --json", "the same for a program"}},
          [](CLI::App& app) -> std::function<int()> {
            auto output = std::make_shared<OutputOptions>();
            output->declare(app, true);
            return [output] { return examine(*output); };
          }};
}

}  // namespace mesh
