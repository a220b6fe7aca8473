// run_emitted.cpp: emitted programs in a shared library against the interpreter, bit for bit:
//   run_emitted LIBRARY.so NAME=SPEC ...
// The library has, for each NAME, a function make_NAME that gives a meshrt::Program*. Prints a line for each.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "codegen/compile.h"
#include "codegen/interpret/interpreted_program.h"
#include "frontend/render.h"
#include "tests/emit/record.h"

namespace mesh {

namespace {

using MakePlain = meshrt::Program* (*)();

MakePlain find(void* library, const std::string& name) {
  void* const found = dlsym(library, ("make_" + name).c_str());
  if (!found) throw std::runtime_error("the library has no make_" + name);
  return reinterpret_cast<MakePlain>(found);
}

/// "equal: N values on R ranks", or what differs. The machine is that of SPEC.yaml, where there is one.
std::string compare(void* library, const std::string& name, const std::string& spec) {
  SourceMap sources;
  DiagnosticSink sink;
  CompileRequest request;
  request.files = {spec};
  if (std::filesystem::exists(spec + ".yaml")) request.machine_file = spec + ".yaml";
  const std::optional<Compiled> compiled = compile(request, sources, sink);
  if (!compiled) throw std::runtime_error(render_all(sink, sources));
  const auto ranks = static_cast<int>(compiled->sharded().layout.mesh.ranks());
  const auto interpreted =
      tests::record([&] { return std::make_unique<InterpretedProgram>(compiled->program, &sources); }, ranks);
  const MakePlain make = find(library, name);
  const auto emitted = tests::record([&] { return std::unique_ptr<meshrt::Program>(make()); }, ranks);
  const std::vector<std::string> wrong = tests::differences(interpreted, emitted);
  if (wrong.empty()) return fmt::format("equal: {} values on each of {} ranks", interpreted[0].size(), ranks);
  return fmt::format("{} values differ, first {}", wrong.size(), wrong.front());
}

}  // namespace

}  // namespace mesh

int main(int argc, char** argv) {
  void* const library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : nullptr;
  if (!library) {
    fmt::print(stderr, "run_emitted LIBRARY.so NAME=SPEC ...: {}\n", argc > 2 ? dlerror() : "too few arguments");
    return 2;
  }
  int failed = 0;
  for (int i = 2; i < argc; ++i) {
    const std::string_view text = argv[i];
    const std::string name(text.substr(0, text.find('='))), spec(text.substr(text.find('=') + 1));
    std::string found;
    try {
      found = mesh::compare(library, name, spec);
    } catch (const std::exception& problem) {
      found = problem.what();
    }
    failed += found.starts_with("equal") ? 0 : 1;
    fmt::print("{}: {}\n", name, found);
  }
  return failed == 0 ? 0 : 1;
}
