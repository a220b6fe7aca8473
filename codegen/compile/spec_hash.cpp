#include "codegen/compile/spec_hash.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/layout/rules.h"

namespace mesh {

std::string spec_hash(const CompileRequest& request, const SourceMap& sources, const Layout& layout) {
  uint64_t hash = 14695981039346656037ull;
  const auto add = [&](std::string_view text) {
    for (unsigned char c : text) hash = (hash ^ c) * 1099511628211ull;
    hash = (hash ^ 0xff) * 1099511628211ull;
  };
  for (FileId file = 1; file <= sources.size(); ++file) add(sources.text(file));
  for (const auto& [dim, size] : request.set) add(fmt::format("{}={}", dim, size));
  add(request.model + "," + request.precision + "," + layout.name);
  for (const Rule* rule : added_rules(layout)) add(rule->written);
  for (const PipelineLoop& loop : layout.pipeline.loops)  // an automatic cut knows the memory
    if (loop.deal) add(meshrt::to_text(loop.deal));
  for (const MeshAxis& axis : layout.mesh.axes) add(fmt::format("{}={}", axis.name, axis.size));
  for (const std::string& entry : request.watch) add("watch " + entry);
  for (const ValuesEntry& entry : request.entries) add(fmt::format("{}: {}", entry.name, fmt::join(entry.values, ",")));
  if (request.generate) add("generate");
  return fmt::format("{:016x}", hash);
}

}  // namespace mesh
