#include "frontend/unused.h"

#include <algorithm>
#include <set>
#include <type_traits>
#include <vector>

namespace mesh {
namespace {

// Every name that is mentioned, as opposed to declared.
class Mentions {
 public:
  void add(const ast::Body& body) {
    for (const ast::Statement& statement : body) std::visit([&](const auto& node) { add(node); }, statement.node);
  }
  void add(const ast::Decl& decl) {
    std::visit([&](const auto& node) { add(node); }, decl.node);
  }
  bool has(const ast::Name& name) const { return names_.contains(name.text); }

 private:
  // ---- expressions and brackets ----
  void add(const ast::Name& name) { names_.insert(name.text); }
  template <class T>
  void add(const std::vector<T>& all) {
    for (const T& one : all) add(one);
  }
  template <class T>
  void add(const std::optional<T>& one) {
    if (one) add(*one);
  }
  void add(const ast::ExprPtr& expr) {
    if (expr) std::visit([&](const auto& node) { add(node); }, expr->node);
  }
  void add(const ast::Path& path) { add(path.parts); }
  void add(const ast::Glob& glob) { add(glob.parts); }
  void add(const ast::Pick& pick) { add(pick.names); }
  void add(const ast::Window& window) {
    if (!window.size) add(window.dim);
  }
  void add(const ast::Range& range) {
    add(range.begin);
    add(range.end);
  }
  void add(const ast::Item& item) {
    if (item.rest) return;
    add(item.pick);
    add(item.window);
    add(item.range);
    add(item.as);
  }
  void add(const ast::Slot& slot) {
    if (slot.rest) return;
    add(slot.dim);
    add(slot.value);
  }
  void add(const ast::Type& type) {
    add(type.element);
    add(type.index_of);
    add(type.slots);
  }
  void add(const ast::Argument& argument) { add(argument.value); }
  void add(const ast::Call& call) {
    add(call.callee);
    add(call.items);
    add(call.arguments);
  }
  void add(const ast::Index& index) {
    add(index.value);
    add(index.items);
  }
  void add(const ast::Cast& cast) {
    add(cast.index_of);
    add(cast.value);
  }
  void add(const ast::Unary& unary) { add(unary.operand); }
  void add(const ast::Group& group) { add(group.values); }
  void add(const ast::Number&) {}
  void add(const ast::String&) {}
  void add(const ast::Bool&) {}
  template <class T>
  requires std::is_same_v<T, ast::Binary> || std::is_same_v<T, ast::Compare> || std::is_same_v<T, ast::Logical>
  void add(const T& both) {
    add(both.left);
    add(both.right);
  }

  // ---- statements ----
  void add(const ast::Attribute& attribute) { add(attribute.value); }
  void add(const ast::Dims& dims) {
    for (const ast::Dim& dim : dims.dims) {
      add(dim.size);
      add(dim.edge);
    }
  }
  void add(const ast::Require& require) { add(require.condition); }
  void add(const ast::Port& port) {
    if (port.direction == ast::Port::Direction::output) add(port.names);
    add(port.type);
  }
  template <class T>
  requires std::is_same_v<T, ast::Parameter> || std::is_same_v<T, ast::State>
  void add(const T& owned) {
    add(owned.type);
    add(owned.initial);
  }
  void add(const ast::Metric& metric) { add(metric.value); }
  void add(const ast::Repeat& repeat) {
    add(repeat.dim);
    add(repeat.until);
    add(repeat.body);
  }
  void add(const ast::Cut& cut) {
    add(cut.dims);
    add(cut.parts);
  }
  void add(const ast::Manual& manual) {
    add(manual.cuts);
    add(manual.body);
  }
  void add(const ast::Return& result) { add(result.values); }
  void add(const ast::ParameterGroup& group) {
    add(group.globs);
    add(group.attributes);
  }
  void add(const ast::Minimize& minimize) {
    add(minimize.loss);
    add(minimize.over);
    add(minimize.optimizer);
    add(minimize.groups);
  }
  void add(const ast::Generate& generate) {
    add(generate.input);
    add(generate.along);
    add(generate.from);
  }
  void add(const ast::Bind& bind) {
    add(bind.type);
    add(bind.value);
  }
  void add(const ast::Update& update) {
    add(update.name);
    add(update.value);
  }

  // ---- declarations ----
  void add(const ast::Import&) {}
  void add(const ast::Version&) {}
  void add(const ast::Constants& constants) {
    for (const ast::Constant& constant : constants.constants) add(constant.value);
  }
  void add(const ast::Block& block) {
    for (const ast::BlockInput& input : block.inputs) add(input.type);
    add(block.results);
    add(block.body);
  }
  void add(const ast::Model& model) { add(model.body); }
  void add(const ast::Mesh& mesh) {
    for (const ast::Axis& axis : mesh.axes) add(axis.size);
  }
  void add(const ast::Layout& layout) { add(layout.rules); }
  void add(const ast::Rule& rule) {
    std::visit([&](const auto& node) { add(node); }, rule.node);
  }
  void add(const ast::Product& product) { add(product.names); }
  void add(const ast::Place& place) {
    add(place.dims);
    add(place.unless);
    add(place.attributes);
  }
  void add(const ast::Scope& scope) { add(scope.rules); }
  void add(const ast::Pin& pin) {
    add(pin.tensors);
    add(pin.rules);
  }
  void add(const ast::Within& within) { add(within.rules); }
  void add(const ast::Replicate&) {}
  void add(const ast::Auto&) {}
  void add(const ast::Closed&) {}
  void add(const ast::Precision&) {}
  void add(const ast::Budget&) {}

  std::set<std::string> names_;
};

// Calls `visit` for every statement, those of loops and manual regions too.
template <class Visit>
void for_each_statement(const ast::Body& body, const Visit& visit) {
  for (const ast::Statement& statement : body) {
    visit(statement);
    if (const auto* repeat = std::get_if<ast::Repeat>(&statement.node)) for_each_statement(repeat->body, visit);
    if (const auto* manual = std::get_if<ast::Manual>(&statement.node)) for_each_statement(manual->body, visit);
  }
}

// Whether something comes of the statement beyond the value that it names.
bool has_effect(const ast::Statement& statement) {
  const auto* port = std::get_if<ast::Port>(&statement.node);
  return std::holds_alternative<ast::Minimize>(statement.node) ||
         std::holds_alternative<ast::Generate>(statement.node) || std::holds_alternative<ast::Update>(statement.node) ||
         (port != nullptr && port->direction == ast::Port::Direction::output);
}

class Report {
 public:
  Report(const Mentions& all, const Mentions& layouts, const Mentions& models, DiagnosticSink& sink)
      : all_(all), layouts_(layouts), models_(models), sink_(sink) {}

  void dims(const ast::Dims& dims) {
    for (const ast::Dim& dim : dims.dims)
      if (!all_.has(dim.name))
        sink_.lint("unused_dim", dim.name.span, "nothing has the dim `" + dim.name.text + "`").here("declared here");
  }

  void model(const ast::Model& model) {
    bool effects = false;
    for_each_statement(model.body, [&](const ast::Statement& statement) { effects |= has_effect(statement); });
    body(model.body, effects, true);
  }

  // Elaboration sees a block where it is called.
  void block(const ast::Block& block) {
    if (!models_.has(block.name))
      sink_.lint("unused_block", block.name.span, "no model calls block `" + block.name.text + "`")
          .here("its names, sizes and types are not checked");
    body(block.body, true, false);
  }

 private:
  void body(const ast::Body& body, bool values, bool in_model) {
    Mentions inside;
    inside.add(body);
    for_each_statement(body, [&](const ast::Statement& statement) {
      if (const auto* declared = std::get_if<ast::Dims>(&statement.node)) dims(*declared);
      if (const auto* bind = std::get_if<ast::Bind>(&statement.node); bind != nullptr && values)
        value(*bind, inside, in_model);
    });
  }

  // Of several results at once, one that is needed keeps the others.
  void value(const ast::Bind& bind, const Mentions& inside, bool in_model) {
    if (std::ranges::any_of(bind.names, [&](const ast::Name& name) { return inside.has(name) || layouts_.has(name); }))
      return;
    const std::string& name = bind.names.front().text;
    sink_.lint("unused_value", bind.names.front().span, "nothing uses `" + name + "`")
        .here("computed here")
        .help(in_model ? "leave it out, or have it written: `output " + name + "`" : "leave it out");
  }

  const Mentions& all_;      // of all files
  const Mentions& layouts_;  // of their layouts: a pin may name a value
  const Mentions& models_;   // of their models, and of the blocks that these call
  DiagnosticSink& sink_;
};

// Of all files, what is mentioned outside of blocks, and in blocks that are called from there.
Mentions mentions_of_models(const SourceProgram& program) {
  Mentions found;
  std::vector<const ast::Decl*> blocks;
  for (const Ast& file : program.files)
    for (const ast::Decl& decl : file.decls)
      if (std::holds_alternative<ast::Block>(decl.node)) blocks.push_back(&decl);
      else found.add(decl);
  const auto take_called = [&](const ast::Decl* decl) {
    const bool called = found.has(std::get<ast::Block>(decl->node).name);
    if (called) found.add(*decl);
    return called;
  };
  for (bool more = true; more;) more = std::erase_if(blocks, take_called) > 0;
  return found;
}

}  // namespace

void report_unused(const SourceProgram& program, DiagnosticSink& sink) {
  Mentions all, layouts;
  for (const Ast& file : program.files)
    for (const ast::Decl& decl : file.decls) {
      all.add(decl);
      if (std::holds_alternative<ast::Layout>(decl.node)) layouts.add(decl);
    }
  const Mentions models = mentions_of_models(program);
  Report report(all, layouts, models, sink);
  for (const ast::Decl& decl : program.files[program.spec].decls) {
    if (const auto* dims = std::get_if<ast::Dims>(&decl.node)) report.dims(*dims);
    if (const auto* block = std::get_if<ast::Block>(&decl.node)) report.block(*block);
    if (const auto* model = std::get_if<ast::Model>(&decl.node)) report.model(*model);
  }
}

}  // namespace mesh
