#include "codegen/elaborate/declarations.h"

#include <variant>

namespace mesh {
namespace {

/// Remembers where names of one kind were declared.
class Names {
 public:
  Names(const char* kind, DiagnosticSink& sink) : kind_(kind), sink_(sink) {}

  bool add(const ast::Name& name) {
    const auto [at, fresh] = first_.try_emplace(name.text, name.span);
    if (!fresh)
      sink_.error("E0204", name.span, "{} `{}` is declared twice", kind_, name.text)
          .here("again here")
          .label(at->second, "first here");
    return fresh;
  }

 private:
  const char* kind_;
  DiagnosticSink& sink_;
  std::map<std::string, Span> first_;
};

template <class T>
const T* find(const std::vector<const T*>& all, const std::string& name) {
  for (const T* one : all)
    if (one->name.text == name) return one;
  return nullptr;
}

}  // namespace

const ast::Model* Declarations::model(const std::string& name) const { return find(models, name); }
const ast::Mesh* Declarations::mesh(const std::string& name) const { return find(meshes, name); }
const ast::Layout* Declarations::layout(const std::string& name) const { return find(layouts, name); }

Declarations declarations_of(const SourceProgram& program, DiagnosticSink& sink) {
  Declarations all;
  Names dims("dim", sink), constants("const", sink), blocks("block", sink), models("model", sink);
  Names meshes("mesh", sink), layouts("layout", sink);
  for (const Ast& file : program.files) {
    for (const ast::Decl& decl : file.decls) {
      if (const auto* list = std::get_if<ast::Dims>(&decl.node)) {
        for (const ast::Dim& dim : list->dims)
          if (dims.add(dim.name)) all.dims.push_back(&dim);
      } else if (const auto* list = std::get_if<ast::Constants>(&decl.node)) {
        for (const ast::Constant& constant : list->constants)
          if (constants.add(constant.name)) all.constants.push_back(&constant);
      } else if (const auto* require = std::get_if<ast::Require>(&decl.node)) {
        all.requirements.push_back(require);
      } else if (const auto* block = std::get_if<ast::Block>(&decl.node)) {
        if (blocks.add(block->name)) all.blocks.emplace(block->name.text, block);
      } else if (const auto* model = std::get_if<ast::Model>(&decl.node)) {
        if (models.add(model->name)) all.models.push_back(model);
      } else if (const auto* mesh = std::get_if<ast::Mesh>(&decl.node)) {
        if (meshes.add(mesh->name)) all.meshes.push_back(mesh);
      } else if (const auto* layout = std::get_if<ast::Layout>(&decl.node)) {
        if (layouts.add(layout->name)) all.layouts.push_back(layout);
      } else if (const auto* budget = std::get_if<ast::Budget>(&decl.node)) {
        all.budgets.push_back(budget);
      }
    }
  }
  return all;
}

}  // namespace mesh
