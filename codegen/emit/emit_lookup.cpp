// emit_lookup.cpp: rows of a table by their numbers, and rows reduced into a table at their numbers. Dims that table
// and numbers share, and the table's before its rows, are `for` loops around the call.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "codegen/emit/emit_calls.h"
#include "codegen/program/extent.h"
#include "codegen/program/lookup_dims.h"

namespace mesh {

namespace {

struct Lookup {
  EmitContext& context;
  const Access &table, &ids, &result;
  const DimId dim;
  const LookupDims dims;
  std::vector<LocalDim> loops = dims.shared;

  Lookup(EmitContext& context, const Access& table, const Access& ids, const Access& result, DimId dim)
      : context(context),
        table(table),
        ids(ids),
        result(result),
        dim(dim),
        dims(lookup_dims(context.program, table, ids, dim)) {
    loops.insert(loops.end(), dims.before.begin(), dims.before.end());
  }

  std::string place(const Access& access) const {
    std::string text = address(context, access);
    for (const LocalDim& loop : loops) {
      if (!has_dim(context, access, loop.dim)) continue;
      const std::string& index = context.names.index(loop.dim);
      const std::string stride = stride_along(context, access, {loop.dim});
      if (stride == "1") text += " + " + index;
      else text += " + " + index + " * " + (stride.find(' ') == stride.npos ? stride : "(" + stride + ")");
    }
    return text;
  }

  /// {first row, end, width, distance of the table's rows, distance of the result's}
  std::string rows() const {
    const auto held = dims_of(context.program, table);
    const LocalDim& row = *std::ranges::find(held, dim, &LocalDim::dim);
    const std::string begin = context.names.begin(row), extent = context.names.extent(row);
    const std::string width = context.names.product(dims.inner), table_row = stride_along(context, table, {dim});
    const std::string result_row =
        dims.counted.empty() ? "0" : stride_along(context, result, {dims.counted.back().dim});
    const std::string end = begin == "0" ? extent : begin + " + " + extent;
    if (table_row == width && result_row == width) return fmt::format("{{{}, {}, {}}}", begin, end, width);
    return fmt::format("{{{}, {}, {}, {}, {}}}", begin, end, width, table_row, result_row);
  }

  std::string count() const { return context.names.product(dims.counted); }

  void print(CppWriter& out, const std::string& call) const {
    std::vector<std::unique_ptr<CppWriter::Block>> blocks;
    for (const LocalDim& loop : loops) {
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
                                lookup.place(step.ids), lookup.count(), lookup.place(step.out)));
}

void emit_scatter(EmitContext& context, CppWriter& out, const ScatterStep& step) {
  const Lookup lookup(context, step.table, step.ids, step.rows, step.dim);
  if (!step.adds) {
    const Type type = context.program.buffer(step.table.buffer).type;
    out.line(fmt::format("std::fill_n({}, {}, {});", address(context, step.table), elements(context, step.table),
                         literal(neutral(step.reduce), type)));
  }
  lookup.print(out, fmt::format("meshrt::scatter_{}({}, {}, {}, {}, {});", step.reduce == Reduce::max ? "max" : "add",
                                lookup.rows(), lookup.place(step.table), lookup.place(step.ids), lookup.count(),
                                lookup.place(step.rows)));
}

}  // namespace mesh
