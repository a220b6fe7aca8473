#include "codegen/emit/emit_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/emit_checks.h"
#include "codegen/emit/emit_functions.h"
#include "codegen/emit/emit_parts.h"
#include "codegen/emit/outline.h"
#include "codegen/graph/builder.h"
#include "codegen/program/overlap.h"

namespace mesh {

namespace {

constexpr int member_depth = 1;

void emit_function(CppWriter& out, const std::string& comment, const std::string& head, const std::string& body,
                   int depth = member_depth) {
  out.blank();
  if (!comment.empty()) out.comment(comment);
  const size_t first = body.find_first_not_of(' ');
  if (body.empty()) return out.line(head + " {}");
  const bool one_line = std::ranges::count(body, '\n') == 1 && !body.substr(first).starts_with("for ");
  if (one_line) {
    const std::string whole = head + " { " + body.substr(first, body.size() - first - 1) + " }";
    if (whole.size() + 2 * static_cast<size_t>(depth) <= CppWriter::width) return out.line(whole);
  }
  const auto block = out.block(head);
  out.insert(body);
}

std::string rate_text(const Schedule& schedule) {
  const auto chosen = [&](const char* key) {
    const std::string written = number_text(schedule.value(key));
    return schedule.of_run ? "step.rate >= 0 ? step.rate : " + written : written;
  };
  const std::string warmup = number_text(schedule.value("warmup")), hold = number_text(schedule.value("hold"));
  if (schedule.name == "constant" && schedule.value("warmup") > 0)
    return fmt::format("meshrt::constant({}, {}, step.step)", chosen("rate"), warmup);
  if (schedule.name == "constant") return chosen("rate");
  if (schedule.name == "inverse_sqrt" && schedule.value("hold") > 0)
    return fmt::format("meshrt::held_inverse_sqrt({}, {}, step.step)", chosen("peak"), hold);
  if (schedule.name == "inverse_sqrt")
    return fmt::format("meshrt::inverse_sqrt({}, {}, step.step)", chosen("peak"), warmup);
  if (schedule.name == "step")
    return fmt::format("meshrt::stepped({}, {}, {}, {}, {}, step.step)", chosen("peak"), warmup,
                       number_text(schedule.value("every")), number_text(schedule.value("factor")),
                       number_text(schedule.value("times")));
  const double of_spec = schedule.value("steps");
  const std::string steps = of_spec > 0 ? number_text(of_spec) : "static_cast<double>(step.steps)";
  if (schedule.name != "cosine" && schedule.name != "linear") internal_error("there is no schedule " + schedule.name);
  return fmt::format("meshrt::{}({}, {}, {}, {}, step.step)", schedule.name, chosen("peak"), warmup, steps,
                     number_text(schedule.value("floor")));
}

/// One factor a line.
std::string rate_lines(const RateOp& rate) {
  CppWriter out(member_depth + 1);
  if (rate.factors.size() == 1) {
    out.line("return " + rate_text(rate.factors.front()) + ";");
    return out.text();
  }
  for (const Schedule& factor : rate.factors)
    out.line((&factor == &rate.factors.front() ? "double product = " : "product *= ") + rate_text(factor) + ";");
  out.line("return product;");
  return out.text();
}

/// `results[0] = loss[0];` for each number.
std::string result_lines(const EmitContext& context, const std::vector<BufferId>& results) {
  CppWriter out(member_depth + 1);
  for (size_t i = 0; i < results.size(); ++i) out.line(fmt::format("results[{}] = {};", i, value(context, results[i])));
  return out.text();
}

/// `carry<double>(all, &loss_sum, 1, Reduce::sum);` for what an entry carries from call to call.
std::string carried_lines(EmitContext& context, const std::vector<Accumulator>& carried) {
  CppWriter out(member_depth + 1);
  for (const Accumulator& one : carried) {
    const Access all{one.buffer, {}};
    const std::string count = context.names.is_number(one.buffer) ? "1" : elements(context, all);
    out.line(fmt::format("carry<{}>(all, {}, {}, Reduce::{});", cpp_type(context.program.buffer(one.buffer).type),
                         address(context, all), count, meshrt::name_of(one.reduce)));
  }
  return out.text();
}

/// The functions that meshrt::Program calls, as meshrt::Entry names them. Gives the entry's row in the table of them.
std::string emit_entry(EmitContext& context, CppWriter& out, size_t index, const std::vector<std::string>& routines) {
  const EntryPoint& entry = context.program.entries[index];
  const std::string& name = context.names.entry(index);
  const auto head = [](const std::string& function, const std::string& type, const std::string& argument, bool used) {
    return "void " + function + "(" + type + (used ? " " + argument : "") + ")";
  };
  const std::string numbers = "std::span<double>", results = result_lines(context, entry.results);
  std::string meaning = entry.meaning + ".";
  meaning.front() = static_cast<char>(toupper(static_cast<unsigned char>(meaning.front())));
  CppWriter check(member_depth + 1);
  if (context.find_nonfinite && index == 0) check_stored(context, check);
  const std::string run = check.text() + routines[entry.run];
  std::string row = "&" + context.names.model() + "::" + name;
  if (!entry.finish) {
    emit_function(out, meaning, head(name, numbers, "results", !entry.results.empty()), run + results);
    return row;
  }
  emit_function(out, meaning, head(name, numbers, "", false), run);
  emit_function(out, "", head(name + "_finish", numbers, "results", !entry.results.empty()),
                routines[*entry.finish] + results);
  row += ", &" + context.names.model() + "::" + name + "_finish";
  if (entry.carried.empty()) return row;
  emit_function(out, "", head(name + "_carried", "std::vector<meshrt::Carried>&", "all", true),
                carried_lines(context, entry.carried));
  return row + ", &" + context.names.model() + "::" + name + "_carried";
}

}  // namespace

std::string emit_program(const Program& program, const SourceMap& sources, const EmitOptions& options) {
  EmitContext context{program, sources, Names(program)};
  context.find_nonfinite = options.find_nonfinite;
  context.meanwhile = steps_meanwhile(program);
  const std::string& model = context.names.model();

  // The functions are written first: what they use is what is declared before them.
  FunctionTable table;
  Outline outline(context, table);
  context.outline = &outline;
  std::vector<std::string> routines;
  for (uint32_t i = 0; i < program.routines.size(); ++i) routines.push_back(table.routine(context, i));
  CppWriter members(member_depth);
  emit_memory(context, members);
  emit_plans(context, members);
  emit_pipelines(context, members);
  CppWriter functions(member_depth);
  for (const EmittedFunction& function : table.functions())
    emit_function(functions, function.comment, function.head, function.body);
  std::vector<std::string> entries;
  for (size_t i = 0; i < program.entries.size(); ++i) entries.push_back(emit_entry(context, functions, i, routines));
  for (const auto& [rate, name] : context.rates)
    emit_function(functions, "The learning rate of this step: the run file's, else the spec's.",
                  "double " + name + "() const", rate_lines(rate));

  CppWriter out;
  emit_header(context, out, options);
  out.line(R"(#include "meshrt/emitted.h")");
  out.blank();
  out.line("namespace {");
  out.blank();
  out.line(
      "using meshrt::Gathered, meshrt::Plan, meshrt::Reduce, meshrt::Scattered, meshrt::Stack, meshrt::Type, "
      "meshrt::Whole;");
  emit_dims(context, out);
  emit_info(context, out, options);
  emit_rows(context, out);
  out.section(context.graph().model + " on one rank");
  {
    const auto block = out.block("struct " + model + " : meshrt::Model<arena_bytes, own_bytes>", ";");
    CppWriter head(member_depth);
    std::string plan;
    if (!context.plans.empty()) plan += "    plan_collectives();\n";
    if (!context.pipelines.empty()) plan += "    plan_pipelines();\n";
    emit_function(head, "", "explicit " + model + "(meshrt::Rank& rank) : Model(rank, program_info())", plan);
    emit_place(context, head);
    out.insert(head.text());
    out.insert("\n" + members.text());
    out.insert("\n" + functions.text());
  }
  out.blank();
  {
    const auto block = out.block("constexpr meshrt::Entry<" + model + "> entries[] =", ";");
    std::vector<std::pair<std::string, std::string>> rows;  // with comments, or clang-format would make columns of them
    for (size_t i = 0; i < entries.size(); ++i) rows.emplace_back("{" + entries[i] + "},", program.entries[i].name);
    CppWriter table_of_entries(2);
    table_of_entries.table(rows);
    out.insert(table_of_entries.text());
  }
  emit_function(out, "", "std::unique_ptr<meshrt::Program> make()",
                "  return std::make_unique<meshrt::Emitted<" + model + ", program_info, entries>>();\n", 0);
  out.blank();
  out.line("}  // namespace");
  out.blank();
  out.line("int main(int argc, char** argv) { return meshrt::run_main(argc, argv, make); }");
  return out.text();
}

}  // namespace mesh
