// declarations.h: what the files of a program declare at their top level, by name. Shared by elaboration and by the
// resolution of layouts.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "frontend/ast.h"
#include "frontend/diagnostic.h"
#include "frontend/imports.h"

namespace mesh {

struct Declarations {
  std::vector<const ast::Dim*> dims;  // in source order, as everything here
  std::vector<const ast::Constant*> constants;
  std::vector<const ast::Require*> requirements;
  std::vector<const ast::Model*> models;
  std::vector<const ast::Mesh*> meshes;
  std::vector<const ast::Layout*> layouts;
  std::vector<const ast::Budget*> budgets;
  std::map<std::string, const ast::Block*> blocks;

  const ast::Model* model(const std::string& name) const;
  const ast::Mesh* mesh(const std::string& name) const;
  const ast::Layout* layout(const std::string& name) const;
};

/// E0204 where a name is declared twice; the first declaration stands.
Declarations declarations_of(const SourceProgram&, DiagnosticSink&);

}  // namespace mesh
