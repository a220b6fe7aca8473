// resolve_rules.h: the rules of a layout, with scopes, `in` and pins spread out: one Rule a dim.
#pragma once
#include <set>
#include <string>

#include "codegen/layout/mesh.h"
#include "frontend/ast.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// Fills layout.rules, replicated and closed. E0403 for unknown dims, E0404 for unknown axes, E0406 for two rules of
/// equal rank, E0408 for patterns that match nothing, E0901 for attributes that are not built. Rules over axes of
/// size 1 are left out; a rule for a dim that the model does not use is the lint unused_layout_rule.
/// `elsewhere`: dims that other models of the spec name, of which that lint says nothing.
void resolve_rules(const ast::Rules&, const Graph&, const std::set<std::string>& elsewhere, SourceMap&, Layout&,
                   DiagnosticSink&);

}  // namespace mesh
