// print_graph.h: a graph as text, for `meshc ir SPEC graph` and goldens: a node a line, loops indented.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"

namespace mesh {

/// "%12", or "%12 score" for a named value.
std::string value_name(const Graph&, ValueId);
/// What readers know a value by: its name, else its label; empty where it has neither.
const std::string& known_as(const Graph&, ValueId);
/// "embed, seq": the names of dims.
std::string dims_text(const Graph&, const std::vector<DimId>&, const char* between = ", ");
/// The op with its attributes: "dot[embed]", "map.add", "read layer.attn.wq".
std::string op_text(const Graph&, const Op&);

/// `extra`, if given, is asked for text to put after each result's type (placements).
std::string print_graph(const Graph&, const std::function<std::string(ValueId)>& extra = {});

}  // namespace mesh
