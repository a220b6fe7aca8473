#include "codegen/elaborate/extents.h"

#include <limits>

#include "codegen/graph/op.h"

namespace mesh::elaboration {
namespace {

constexpr int64_t most_elements = int64_t{1} << 56;  // twice their bytes, as an all_reduce sends, fit 63 bits
constexpr int64_t most_positions = std::numeric_limits<int32_t>::max();

class Extents {
 public:
  explicit Extents(Elaboration& e) : e_(e) {}

  void run() { body(e_.graph.root(), 1); }

 private:
  void body(BodyId id, int64_t turns) {
    for (const NodeId node_id : e_.graph.body(id).nodes) {
      if (found_) return;
      const Node& node = e_.graph.node(node_id);
      for (const ValueId value : node.results) check(value, node.span, turns);
      if (const auto dim = positions_along(e_.graph, node)) check_positions(*dim, node.span);
      if (const auto* loop = std::get_if<LoopOp>(&node.op)) {
        check_positions(loop->dim, node.span);
        if (!found_) body(loop->body, product_or_largest(turns, e_.size(loop->dim)));
      }
    }
  }

  void check(ValueId value, Span span, int64_t turns) {
    if (found_) return;
    const ValueType& type = e_.type(value);
    int64_t elements = turns;
    for (const DimId dim : type.dims) elements = product_or_largest(elements, e_.size(dim));
    if (type.index_of) check_positions(type.index_of, span);
    if (found_ || elements <= most_elements) return;
    found_ = true;
    const std::string& name = e_.graph.value(value).name;
    auto report = e_.error("E0221", span, "{} has more elements than can be counted",
                           name.empty() ? "this value" : "`" + name + "`");
    report.here("{}", to_string(e_.graph, type));
    std::string sizes;
    for (const DimId dim : type.dims)
      sizes += fmt::format("{}{} = {}", sizes.empty() ? "" : ", ", e_.name(dim), e_.size(dim));
    report.note(fmt::format("{}{}; at most {} are possible", sizes, turns > 1 ? fmt::format(", {} turns", turns) : "",
                            most_elements));
    report.help("choose smaller sizes: `--set DIM=N` sets one for a command");
  }

  void check_positions(DimId dim, Span span) {
    if (found_ || e_.size(dim) <= most_positions) return;
    found_ = true;
    e_.error("E0221", span, "positions along `{}` do not fit i32", e_.name(dim))
        .label(e_.graph.dim(dim).span, "{} = {}", e_.name(dim), e_.size(dim))
        .note(fmt::format("positions, indices and turns go up to {}", most_positions));
  }

  Elaboration& e_;
  bool found_ = false;  // one is enough: what is computed from it is as large
};

}  // namespace

void check_extents(Elaboration& e) { Extents(e).run(); }

int64_t product_or_largest(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

}  // namespace mesh::elaboration
