// What the tests of the front end share: the files beside them, and parsing a text.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "frontend/parse.h"
#include "frontend/render.h"

namespace mesh {

// The .mesh files of a folder beside the tests, sorted.
inline std::vector<std::filesystem::path> mesh_files(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(FIXTURES) + "/" + folder)) {
    if (entry.path().extension() == ".mesh") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// A text with everything that was found out about it.
struct Parsed {
  explicit Parsed(std::string text, const std::string& name = "test.mesh") {
    const FileId file = sources.add(name, std::move(text));
    ast = parse(file, sources, sink);
  }
  std::string messages() const { return render_all(sink, sources, RenderOptions{false, 140, 1000}); }

  SourceMap sources;
  DiagnosticSink sink;
  Ast ast;
};

}  // namespace mesh
