#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/emit_parts.h"
#include "codegen/program/extent.h"

namespace mesh {

namespace {

/// "1 + x_per_rows + 1"
std::string between_margins(const Margin& margin, const std::string& own) {
  std::string text = own;
  if (margin.before > 0) text = std::to_string(margin.before) + " + " + text;
  if (margin.after > 0) text += " + " + std::to_string(margin.after);
  return text;
}

}  // namespace

std::string in_parentheses(const std::string& text) {
  return text.find(' ') == std::string::npos ? text : "(" + text + ")";
}

std::string parts_text(EmitContext& context, const DimPlacement& placement) {
  std::string text;
  for (const AxisId axis : placement.axes) text += (text.empty() ? "" : " * ") + context.names.axis(axis) + ".size";
  return text;
}

std::string part_index(EmitContext& context, const DimPlacement& placement) {
  std::vector<std::pair<std::string, std::string>> indices;
  for (const AxisId axis : placement.axes)
    indices.emplace_back("index_on(" + context.names.axis(axis) + ")", context.names.axis(axis) + ".size");
  return horner(indices);
}

std::string deal_expression(const Deal& deal) {
  switch (deal.ownership) {
    case meshrt::Ownership::block: return "meshrt::Deal{}";
    case meshrt::Ownership::rounds: return fmt::format("meshrt::rounds({}, {})", deal.parts, deal.rounds);
    case meshrt::Ownership::zigzag: return fmt::format("meshrt::zigzag({})", deal.parts);
    case meshrt::Ownership::stretch:
      return fmt::format("meshrt::stretch({}, {}, {})", deal.whole, deal.begin, deal.every);
    case meshrt::Ownership::table: break;
  }
  return fmt::format("meshrt::deal_of({})", string_literal(meshrt::to_text(deal)));
}

void emit_dims(EmitContext& context, CppWriter& out) {
  const MeshShape& mesh = context.mesh();
  out.section("dims");
  if (!mesh.axes.empty()) {
    out.line("namespace mesh {");
    std::vector<std::pair<std::string, std::string>> rows;
    for (size_t i = 0; i < mesh.axes.size(); ++i) {
      const MeshAxis& axis = mesh.axes[i];
      rows.emplace_back(fmt::format("constexpr meshrt::Axis {}{{{}, {}}};",
                                    context.names.axis(static_cast<AxisId>(i)).substr(6), axis.size, axis.stride),
                        fmt::format("{} rank{}, {} apart", axis.size, axis.size == 1 ? "" : "s", axis.stride));
    }
    out.table(rows);
    out.line("}  // namespace mesh");
  }
  out.blank();
  std::vector<std::pair<std::string, std::string>> rows;
  for (const DimId id : context.names.used_sizes()) {
    const Dim& dim = context.graph().dim(id);
    std::string origin = context.origin(dim.span);
    if (!dim.derivation.empty()) origin += (origin.empty() ? "" : "  ") + dim.derivation;
    if (origin.empty()) origin = "made by the compiler";  // a row without a comment would break the table
    rows.emplace_back(fmt::format("constexpr int64_t {} = {};", context.names.size(id), dim.size), origin);
  }
  for (const auto& [local, use] : context.names.used_parts()) {
    const std::string parts = parts_text(context, local.placement), size = context.names.size(local.dim);
    if (local.placement.margin) {
      const Margin& margin = local.placement.margin;
      const std::string wide = context.names.wide(local), own = context.names.extent(without_margin(local));
      if (is_even(context.program, local))
        rows.emplace_back(fmt::format("constexpr int64_t {} = {};", wide, between_margins(margin, own)),
                          std::to_string(largest_extent(context.program, local)));
      else if (use.largest)
        rows.emplace_back(fmt::format("constexpr int64_t {}_max = {};", wide, between_margins(margin, own + "_max")),
                          fmt::format("at most {}", largest_extent(context.program, local)));
    } else if (is_even(context.program, local)) {
      rows.emplace_back(
          fmt::format("constexpr int64_t {} = {} / {};", context.names.part(local), size, in_parentheses(parts)),
          std::to_string(largest_extent(context.program, local)));
    } else if (use.largest && local.placement.deal) {
      rows.emplace_back(fmt::format("constexpr int64_t {}_max = {};", context.names.part(local),
                                    largest_extent(context.program, local)),
                        "of the rank with most");
    } else if (use.largest) {
      rows.emplace_back(fmt::format("constexpr int64_t {}_max = ({} + {} - 1) / {};", context.names.part(local), size,
                                    parts, in_parentheses(parts)),
                        fmt::format("at most {}", largest_extent(context.program, local)));
    }
  }
  out.table(rows);
  out.blank();
  out.line(fmt::format("constexpr size_t arena_bytes = {};", grouped_digits(context.program.memory.arena)));
  out.line(fmt::format("constexpr size_t own_bytes = {};", grouped_digits(context.program.memory.own)));
}

void emit_place(EmitContext& context, CppWriter& out) {
  std::vector<std::string> lines;
  for (const auto& [local, use] : context.names.used_parts()) {
    const std::string part = context.names.part(local), index = part_index(context, local.placement);
    const std::string size = context.names.size(local.dim);
    const std::string parts = in_parentheses(parts_text(context, local.placement));
    const bool even = is_even(context.program, local);
    if (local.placement.margin) {
      if (!even)
        lines.push_back(fmt::format("const int64_t {} = {};", context.names.wide(local),
                                    between_margins(local.placement.margin, part)));
      continue;
    }
    if (even && use.begin)
      lines.push_back(fmt::format("const int64_t {}_begin = {} * {};", part, in_parentheses(index), part));
    const Deal& deal = local.placement.deal;
    const std::string dealt = deal ? deal_expression(deal) + ", " : "";
    if (!even) {
      lines.push_back(
          fmt::format("const int64_t {}_begin = meshrt::part_begin({}, {}{}, {});", part, size, dealt, index, parts));
      lines.push_back(
          fmt::format("const int64_t {} = meshrt::part_extent({}, {}{}, {});", part, size, dealt, index, parts));
    }
    if (use.indices)
      lines.push_back(fmt::format(
          "const std::vector<int64_t> {0}_indices = meshrt::indices_at({1}, {2}{0}_begin, {0}_begin + {0});", part,
          size, dealt));
  }
  for (const auto& [name, declaration] : context.constants) lines.push_back(declaration + ";");
  const auto array = [&](const std::vector<AxisId>& axes) {
    std::string list;
    for (const AxisId axis : axes) list += (list.empty() ? "" : ", ") + context.names.axis(axis);
    return "std::array{" + list + "}";
  };
  for (const std::vector<AxisId>& axes : context.group_order)
    lines.push_back(fmt::format("const meshrt::Group& {} = rank.group({});", context.group(axes), array(axes)));
  for (const auto& [axes, name] : context.partners)
    lines.push_back(fmt::format("const meshrt::Partners {} = meshrt::partners({}, {});", name,
                                context.group(axes.first), array(axes.second)));
  for (const auto& [made, name] : context.owners)
    lines.push_back(fmt::format("const meshrt::Owners {}{{{}}};", name, made));
  for (const auto& [made, name] : context.redistributions)
    lines.push_back(fmt::format("const meshrt::Redistribution {}{{{}}};", name, made));
  if (lines.empty()) return;
  out.blank();
  out.comment("Where this rank stands, and whom it works with.");
  for (const std::string& line : lines) out.line(line);
}

}  // namespace mesh
