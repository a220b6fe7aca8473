// resolve.h: the layout that is chosen, as the spec writes it -> `Layout`: its mesh with sizes and strides, its rules
// with dims and axes as ids. Mistakes are errors E04xx; rules and axes that do nothing are lints.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "codegen/graph/graph.h"
#include "codegen/layout/mesh.h"
#include "frontend/diagnostic.h"
#include "frontend/imports.h"
#include "frontend/source.h"

namespace mesh {

struct LayoutOptions {
  std::string layout;                   // empty: the one called `default`, else the only one
  std::map<std::string, int64_t> mesh;  // --mesh a=2,b=2: replaces the mesh's sizes, an axis not named becomes 1
  std::optional<int64_t> ranks;         // -n: fills the one axis written `*`, else must equal the mesh's size
  std::map<std::string, std::string> set = {};  // --set, of which consts may give sizes of axes
  std::string schedule = {};  // a name, in place of the schedule and the chunks of the layout's pipeline
};

/// `graph` is the elaborated model that the layout places. A file without layouts gives one rank. Rules whose axes all
/// have size 1 do nothing and are left out. `found`: rules that stand behind those of the layout, in place of its
/// `auto`. Nothing when an error was reported.
std::optional<Layout> resolve_layout(const SourceProgram&, const Graph&, const LayoutOptions&, SourceMap&,
                                     DiagnosticSink&, const ast::Rules* found = nullptr);

}  // namespace mesh
