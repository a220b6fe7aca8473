// fuzz FIRST COUNT SEED FILES...      compiles mutants FIRST to FIRST + COUNT of the specs, up to their placements
// fuzz --print I SEED FILES...        prints mutant I
// fuzz --emit DIR COUNT SEED FILES... writes the C++ of the first COUNT mild mutants that are accepted and differ
//
// A mutant that is refused without a diagnostic, an exception, a crash and ten seconds without an answer end the run
// with exit code 1 and the mutant's number.
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "codegen/check_rest.h"
#include "codegen/compile.h"
#include "codegen/emit/emit_program.h"
#include "codegen/program/print_program.h"
#include "frontend/render.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/watchdog.h"

namespace {

constexpr const char* name = "mutant.mesh";

std::string mutant(const std::vector<std::string>& texts, uint64_t seed, uint64_t number, bool mild) {
  std::mt19937_64 random(seed * 1'000'003 + number);
  return mesh::fuzz::mutated(texts, random, mild);
}

// ---- one mutant

struct Outcome {
  bool accepted;
  size_t errors;
  std::string wrong;  // empty: nothing
};

Outcome compiled_to_placements(const std::string& text) {
  mesh::SourceMap sources;
  mesh::DiagnosticSink sink;
  sources.add(name, text);
  mesh::CompileRequest request;
  request.files = {name};
  request.stop_after = "sharded";
  bool placed = false;
  request.dump = [&](const std::string&, const std::string& pass, const std::string&) {
    placed = placed || pass == "sharded";
  };
  try {
    mesh::choose_first(request, sources);
    mesh::compile(request, sources, sink);
    mesh::check_rest(request, sources, sink);
    render_all(sink, sources, {});
    for (const mesh::Diagnostic& one : sink.diagnostics()) render_json(one, sources);
  } catch (const std::exception& problem) {
    return {false, 0, problem.what()};
  }
  if (!placed && !sink.has_errors()) return {false, 0, "refused without a diagnostic"};
  return {placed && !sink.has_errors(), sink.diagnostics().size(), ""};
}

int run_all(const std::vector<std::string>& texts, uint64_t first, uint64_t count, uint64_t seed) {
  size_t accepted = 0, errors = 0;
  bool good = true;
  for (uint64_t i = first; i < first + count; ++i) {
    mesh::fuzz::run_next(i);
    const Outcome outcome = compiled_to_placements(mutant(texts, seed, i, false));
    accepted += outcome.accepted ? 1 : 0;
    errors += outcome.errors;
    if (outcome.wrong.empty()) continue;
    good = false;
    fmt::print(stderr, "mutant {}: {}\n", i, outcome.wrong);
  }
  fmt::print("{} mutants, {} accepted, {} diagnostics\n", count, accepted, errors);
  return good ? 0 : 1;
}

/// The C++ of a mutant that `check` accepts; nothing for others.
std::optional<std::pair<std::string, std::string>> program_of(const std::string& text) {
  if (!compiled_to_placements(text).accepted) return std::nullopt;
  mesh::SourceMap sources;
  mesh::DiagnosticSink sink;
  sources.add(name, text);
  mesh::CompileRequest request;
  request.files = {name};
  mesh::choose_first(request, sources);
  const auto compiled = mesh::compile(request, sources, sink);
  if (!compiled) throw std::logic_error("accepted, but not compiled");
  return std::pair(print_program(compiled->program),
                   emit_program(compiled->program, sources, {name, compiled->spec_hash, "fuzz", "test", "f32"}));
}

int emit_accepted(const std::vector<std::string>& texts, const std::string& folder, uint64_t count, uint64_t seed) {
  std::set<std::string> seen;
  uint64_t number = 0;
  for (; seen.size() < count && number < 1000 * count; ++number) {
    mesh::fuzz::run_next(number);
    const auto program = program_of(mutant(texts, seed, number, true));
    if (!program || !seen.insert(program->first).second) continue;
    std::ofstream(fmt::format("{}/{}.cpp", folder, number)) << program->second;
  }
  fmt::print("{} programs of {} mutants\n", seen.size(), number);
  return seen.size() == count ? 0 : 1;
}

std::vector<std::string> read(int argc, char** argv, int first) {
  std::vector<std::string> texts;
  for (int i = first; i < argc; ++i) {
    std::ifstream file(argv[i]);
    std::stringstream text;
    text << file.rdbuf();
    const std::string whole = text.str();
    texts.push_back(whole.substr(0, whole.find("//// expected")));
  }
  return texts;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
  const int files = mode == "--emit" ? 5 : 4;
  if (argc <= files) {
    fmt::print(stderr, "fuzz FIRST COUNT SEED FILES... | --print I SEED FILES... | --emit DIR COUNT SEED FILES...\n");
    return 2;
  }
  const std::vector<std::string> texts = read(argc, argv, files);
  if (mode == "--print") {
    fmt::print("{}", mutant(texts, number(3), number(2), false));
    return 0;
  }
  mesh::fuzz::watch({SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL});
  if (mode == "--emit") return emit_accepted(texts, argv[2], number(3), number(4));
  return run_all(texts, number(1), number(2), number(3));
}
