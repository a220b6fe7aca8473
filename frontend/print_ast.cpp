#include "frontend/print_ast.h"

#include <fmt/format.h>

namespace mesh {

namespace {

template <class T, class F>
std::string list(const std::vector<T>& elements, F text) {
  std::string result;
  for (const T& one : elements) {
    if (!result.empty()) result += ", ";
    result += text(one);
  }
  return result;
}

std::string names(const std::vector<ast::Name>& names) {
  return list(names, [](const ast::Name& name) { return name.text; });
}

std::string globs(const std::vector<ast::Glob>& globs) {
  return list(globs, [](const ast::Glob& glob) { return glob.text(); });
}

std::string attributes(const ast::Attributes& attributes) {
  if (attributes.empty()) return "{ }";
  return fmt::format("{{ {} }}", list(attributes, [](const ast::Attribute& one) {
                       return fmt::format("{}: {}", one.key.text, print(*one.value));
                     }));
}

std::string typed(const std::optional<ast::Type>& type) { return type ? fmt::format(" : {}", print(*type)) : ""; }

class Printer {
 public:
  explicit Printer(int indent) : indent_(indent) {}

  std::string take() { return std::move(out_); }

  template <class Node>
  void print(const Node& node) {
    std::visit([&](const auto& one) { put(one); }, node.node);
  }

 private:
  // ---- lines and braces

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    out_.append(static_cast<std::size_t>(indent_), ' ');
    out_ += fmt::format(format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  // `head {`, the elements a line each, `}`
  template <class Elements>
  void braces(const std::string& head, const Elements& elements) {
    line("{} {{", head);
    indent_ += 2;
    for (const auto& element : elements) print(element);
    indent_ -= 2;
    line("}}");
  }

  // ---- shared

  void put(const ast::Dims& dims) {
    line("dim {}", list(dims.dims, [](const ast::Dim& dim) {
           const std::string edge = dim.edge ? fmt::format(" edge {}", mesh::print(*dim.edge)) : "";
           return fmt::format("{} = {}{}", dim.name.text, mesh::print(*dim.size), edge);
         }));
  }
  void put(const ast::Require& require) { line("require {}", mesh::print(*require.condition)); }

  // ---- statements

  void put(const ast::Port& port) {
    const bool input = port.direction == ast::Port::Direction::input;
    line("{} {}{}", input ? "input" : "output", names(port.names), typed(port.type));
  }
  void put(const ast::Parameter& parameter) {
    const std::string initial = parameter.initial ? fmt::format(" = {}", mesh::print(*parameter.initial)) : "";
    line("param {} : {}{}", names(parameter.names), mesh::print(parameter.type), initial);
  }
  void put(const ast::State& state) {
    line("state {}{} = {}", names(state.names), typed(state.type), mesh::print(*state.initial));
  }
  void put(const ast::Metric& metric) { line("metric {} = {}", metric.name.text, mesh::print(*metric.value)); }
  void put(const ast::Repeat& repeat) {
    std::string head = fmt::format("repeat {}", repeat.dim.text);
    if (repeat.label) head += fmt::format(" as {}", repeat.label->text);
    if (repeat.until) head += fmt::format(" until {}", mesh::print(*repeat.until));
    braces(head, repeat.body);
  }
  void put(const ast::Manual& manual) {
    braces("manual " + list(manual.cuts,
                            [](const ast::Cut& cut) {
                              const std::string dims = cut.dims.empty() ? "" : names(cut.dims) + " ";
                              const std::string parts = cut.parts ? fmt::format("({})", mesh::print(*cut.parts)) : "";
                              return fmt::format("{}over {}{}", dims, cut.axis.text, parts);
                            }),
           manual.body);
  }
  void put(const ast::Return& result) {
    line("return {}", list(result.values, [](const ast::ExprPtr& value) { return mesh::print(*value); }));
  }
  void put(const ast::Minimize& minimize) {
    std::string head = fmt::format("minimize {}", minimize.loss.text);
    if (!minimize.over.empty()) head += fmt::format(" over {}", globs(minimize.over));
    head += fmt::format(" with {}", mesh::print(*minimize.optimizer));
    if (minimize.groups.empty()) return line("{}", head);
    line("{} {{", head);
    for (const ast::ParameterGroup& group : minimize.groups) {
      line("  {} {}", globs(group.globs), group.frozen ? "{ frozen }" : attributes(group.attributes));
    }
    line("}}");
  }
  void put(const ast::Generate& generate) {
    line("generate {} along {} from {}", generate.input.text, generate.along.text, generate.from.text);
  }
  void put(const ast::Bind& bind) { line("{}{} = {}", names(bind.names), typed(bind.type), mesh::print(*bind.value)); }
  void put(const ast::Update& update) { line("{} <- {}", update.name.text, mesh::print(*update.value)); }

  // ---- layouts

  void put(const ast::Place& place) {
    const std::string dims = list(place.dims, [](const ast::Product& product) { return product.text(); });
    const std::string unless = place.unless.empty() ? "" : fmt::format(" unless {}", names(place.unless));
    const std::string with = place.attributes.empty() ? "" : fmt::format(" {}", attributes(place.attributes));
    line("{} -> {}{}{}", dims, place.target.none ? "none" : place.target.axes.text(), unless, with);
  }
  void put(const ast::Scope& scope) { braces(scope.scope.text, scope.rules); }
  void put(const ast::Pin& pin) { braces(fmt::format("tensor {}", globs(pin.tensors)), pin.rules); }
  void put(const ast::Within& within) { braces(fmt::format("in {}", within.path.text()), within.rules); }
  void put(const ast::Replicate& replicate) { line("replicate over {}", names(replicate.axes)); }
  void put(const ast::Auto&) { line("auto"); }
  void put(const ast::Closed&) { line("closed"); }

  // ---- limits

  static std::string over(const std::optional<ast::Name>& axis) {
    return axis ? fmt::format(" over {}", axis->text) : "";
  }
  void put(const ast::Bound& bound) {
    const std::string unit = bound.unit ? fmt::format(" {}", bound.unit->text) : "";
    line("{}{} {} {}{}", bound.quantity.text, over(bound.over), spelling(bound.op), mesh::print(*bound.value), unit);
  }
  void put(const ast::Forbid& forbid) {
    const std::string of = forbid.of ? fmt::format(" of {}", forbid.of->text()) : "";
    line("forbid {}{}{}", forbid.collective.text, of, over(forbid.over));
  }
  void put(const ast::Collectives& exact) {
    line("collectives in {}{} == {}", exact.in.text(), over(exact.over), attributes(exact.counts));
  }

  // ---- declarations

  void put(const ast::Import& import) {
    const auto* path = std::get_if<ast::Path>(&import.target);
    line("import {}", path != nullptr ? path->text() : fmt::format("\"{}\"", std::get<std::string>(import.target)));
  }
  void put(const ast::Version& version) { line("language {}", version.number.text); }
  void put(const ast::Constants& constants) {
    line("const {}", list(constants.constants, [](const ast::Constant& one) {
           return fmt::format("{} = {}", one.name.text, mesh::print(*one.value));
         }));
  }
  void put(const ast::Block& block) {
    const std::string dims = block.dims.empty() ? "" : fmt::format("[{}]", names(block.dims));
    const std::string inputs = list(block.inputs, [](const ast::BlockInput& input) {
      return fmt::format("{} : {}", names(input.names), mesh::print(input.type));
    });
    std::string results = list(block.results, [](const ast::Type& type) { return mesh::print(type); });
    if (block.result_list) results = fmt::format("({})", results);
    braces(fmt::format("block {}{}({}) -> {}", block.name.text, dims, inputs, results), block.body);
  }
  void put(const ast::Model& model) { braces(fmt::format("model {}", model.name.text), model.body); }
  void put(const ast::Mesh& mesh) {
    line("mesh {} {{ {} }}", mesh.name.text, list(mesh.axes, [](const ast::Axis& axis) {
           const std::string within = axis.within ? fmt::format(" within {}", axis.within->text) : "";
           return fmt::format("{}: {}{}", axis.name.text, axis.size ? mesh::print(*axis.size) : "*", within);
         }));
  }
  void put(const ast::Layout& layout) {
    braces(fmt::format("layout {} on {}", layout.name.text, layout.mesh.text), layout.rules);
  }
  void put(const ast::Precision& precision) {
    line("precision {} {}", precision.name.text, attributes(precision.attributes));
  }
  void put(const ast::Budget& budget) { braces(fmt::format("budget {}", budget.layout.text), budget.limits); }

  int indent_;
  std::string out_;
};

template <class Node>
std::string print_node(const Node& node, int indent) {
  Printer printer(indent);
  printer.print(node);
  return printer.take();
}

}  // namespace

std::string print(const ast::Decl& decl, int indent) { return print_node(decl, indent); }
std::string print(const ast::Statement& statement, int indent) { return print_node(statement, indent); }
std::string print(const ast::Rule& rule, int indent) { return print_node(rule, indent); }

std::string print(const ast::File& file) {
  std::string out;
  const ast::Decl* previous = nullptr;
  for (const ast::Decl& decl : file.decls) {
    const std::string text = print(decl);
    // A declaration of several lines stands alone; one-line declarations of a kind stand together.
    const bool together = previous != nullptr && previous->node.index() == decl.node.index() &&
                          text.find('\n') + 1 == text.size() && out.substr(out.size() - 2) != "}\n";
    if (previous != nullptr && !together) out += "\n";
    out += text;
    previous = &decl;
  }
  return out;
}

}  // namespace mesh
