// facts.h: what the sections of a plan's page tell of, each computed once.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/commands/plan_facts.h"
#include "codegen/commands/remedies.h"
#include "codegen/program/memory_curve.h"

namespace mesh::page {

/// Links to lines of the sources, and which of them were linked to: those files are shown.
class Lines {
 public:
  explicit Lines(const SourceMap& sources) : sources_(sources) {}
  /// "gpt.mesh:46" as a link; "" for an unknown place.
  std::string link(Span);
  static std::string id(FileId file, uint32_t line);
  void show(FileId file) { files_.insert(file); }
  const std::set<FileId>& files() const { return files_; }

 private:
  const SourceMap& sources_;
  std::set<FileId> files_;
};

struct Facts {
  Facts(const Session&, const Compiled&);

  const Session& session;
  const Compiled& compiled;
  const SourceMap& sources;
  const ShardedGraph& sharded;
  const Graph& graph;
  const MeshShape& mesh;
  Prediction step;
  StepTime time;
  std::vector<PlannedTensor> tensors;
  std::vector<Remedy> remedies;  // by collective
  MemoryCurve memory;            // of a training step
  Lines lines;

  /// "all_reduce d_w over data (2 ranks)", as HTML.
  std::string title(const PlannedCollective&) const;
  /// "1.0 MiB, 4 times 256.0 KiB"
  std::string sends(const PlannedCollective&) const;
  /// What would remove it, as HTML; `now` is what a step costs without that.
  std::string remedy(size_t collective) const;
  double seconds(const PlannedCollective& one) const { return one.seconds * static_cast<double>(one.count); }
  /// What links to a collective point to.
  static std::string id_of_collective(size_t index);
};

// Sections, as HTML: each with its heading; "" where there is nothing to tell.
std::string verdict(Facts&);
std::string messages(Facts&);
std::string collectives(Facts&);
std::string values(Facts&);
std::string memory(Facts&);
std::string pipeline(Facts&);
std::string layout(Facts&);
/// The last one: it shows the files that were linked to.
std::string source(Facts&);

/// <section id> with a heading.
std::string section(const std::string& id, const std::string& heading, const std::string& content);

}  // namespace mesh::page
