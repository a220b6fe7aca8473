// emit_lookup.cpp: rows of a table by their numbers, and the gradient of that. The table's dims before its rows are
// `for` loops around the call.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "codegen/emit/emit_calls.h"
#include "codegen/graph/builder.h"
#include "codegen/program/extent.h"

namespace mesh {

namespace {

struct Lookup {
  EmitContext& context;
  const Access &table, &ids, &result;
  std::span<const LocalDim> table_dims;
  size_t row = 0;  // position of the rows in the table

  Lookup(EmitContext& context, const Access& table, const Access& ids, const Access& result, DimId dim)
      : context(context), table(table), ids(ids), result(result), table_dims(dims_of(context.program, table)) {
    while (row < table_dims.size() && table_dims[row].dim != dim) ++row;
    if (row == table_dims.size()) internal_error("a lookup's table lacks the dim " + context.graph().dim(dim).name);
  }

  std::string place(const Access& access) const {
    std::string text = address(context, access);
    for (const LocalDim& loop : table_dims.first(row)) {
      const std::string stride = stride_along(context, access, {loop.dim});
      text += " + " + context.names.index(loop.dim) + " * " +
              (stride.find(' ') == stride.npos ? stride : "(" + stride + ")");
    }
    return text;
  }

  /// {first row, end, width, distance of the table's rows, distance of the result's}
  std::string rows() const {
    const LocalDim& held = table_dims[row];
    const std::string begin = context.names.begin(held), extent = context.names.extent(held);
    const std::string width = context.names.product(table_dims.subspan(row + 1));
    std::vector<DimId> id_dims;
    for (const LocalDim& local : dims_of(context.program, ids)) id_dims.push_back(local.dim);
    const std::string result_row = id_dims.empty() ? "0" : stride_along(context, result, id_dims);
    const std::string end = begin == "0" ? extent : begin + " + " + extent;
    if (result_row == width) return fmt::format("{{{}, {}, {}}}", begin, end, width);
    return fmt::format("{{{}, {}, {}, {}, {}}}", begin, end, width, width, result_row);
  }

  void print(CppWriter& out, const std::string& call) const {
    std::vector<std::unique_ptr<CppWriter::Block>> blocks;
    for (const LocalDim& loop : table_dims.first(row)) {
      const std::string& index = context.names.index(loop.dim);
      blocks.push_back(std::make_unique<CppWriter::Block>(
          out, fmt::format("for (int64_t {0} = 0; {0} < {1}; ++{0})", index, context.names.extent(loop)), ""));
    }
    out.line(call);
    while (!blocks.empty()) blocks.pop_back();
  }
};

}  // namespace

void emit_take(EmitContext& context, CppWriter& out, const TakeStep& step) {
  const Lookup lookup(context, step.table, step.ids, step.out, step.dim);
  lookup.print(out, fmt::format("meshrt::take({}, {}, {}, {}, {});", lookup.rows(), lookup.place(step.table),
                                address(context, step.ids), elements(context, step.ids), lookup.place(step.out)));
}

void emit_take_gradient(EmitContext& context, CppWriter& out, const TakeGradientStep& step) {
  const Lookup lookup(context, step.table, step.ids, step.d, step.dim);
  if (!step.adds) {
    const Type type = context.program.buffer(step.table.buffer).type;
    out.line(fmt::format("std::fill_n({}, {}, {});", address(context, step.table), elements(context, step.table),
                         literal(0, type)));
  }
  lookup.print(out, fmt::format("meshrt::take_gradient({}, {}, {}, {}, {});", lookup.rows(), lookup.place(step.table),
                                address(context, step.ids), elements(context, step.ids), lookup.place(step.d)));
}

}  // namespace mesh
