#include "codegen/emit/emit_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/emit_checks.h"
#include "codegen/emit/emit_functions.h"
#include "codegen/emit/emit_parts.h"
#include "codegen/emit/outline.h"
#include "codegen/graph/builder.h"

namespace mesh {

namespace {

constexpr int member_depth = 1;

void emit_function(CppWriter& out, const std::string& comment, const std::string& head, const std::string& body,
                   int depth = member_depth) {
  out.blank();
  if (!comment.empty()) out.comment(comment);
  const size_t first = body.find_first_not_of(' ');
  const bool one_line = std::ranges::count(body, '\n') == 1;
  if (body.empty()) return out.line(head + " {}");
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

/// `metrics[0] = loss[0];` for each metric.
std::string metric_lines(const EmitContext& context, const std::vector<BufferId>& metrics) {
  CppWriter out(member_depth + 1);
  for (size_t i = 0; i < metrics.size(); ++i) out.line(fmt::format("metrics[{}] = {};", i, value(context, metrics[i])));
  return out.text();
}

/// `carry<double>(all, &loss_sum, 1, Reduce::sum);` for what an evaluation carries.
std::string carried_lines(EmitContext& context) {
  CppWriter out(member_depth + 1);
  for (const Accumulator& one : context.program.accumulators) {
    const Access all{one.buffer, {}};
    const std::string count = context.names.is_number(one.buffer) ? "1" : elements(context, all);
    out.line(fmt::format("carry<{}>(all, {}, {}, Reduce::{});", cpp_type(context.program.buffer(one.buffer).type),
                         address(context, all), count, meshrt::name_of(one.reduce)));
  }
  return out.text();
}

}  // namespace

std::string emit_program(const Program& program, const SourceMap& sources, const EmitOptions& options) {
  EmitContext context{program, sources, Names(program)};
  context.find_nonfinite = options.find_nonfinite;
  const std::string& model = context.names.model();

  // The functions are written first: what they use is what is declared before them.
  FunctionTable table;
  Outline outline(context, table);
  context.outline = &outline;
  std::map<std::string, std::string> routines;
  for (const Routine& routine : program.routines) routines[routine.name] = table.routine(context, routine);
  CppWriter members(member_depth);
  emit_memory(context, members);
  CppWriter functions(member_depth);
  for (const EmittedFunction& function : table.functions())
    emit_function(functions, function.comment, function.head, function.body);
  CppWriter begin_step(member_depth + 1);
  begin_step.line("step = input;");
  if (options.find_nonfinite) check_stored(context, begin_step);
  const auto metrics = [&](const std::vector<BufferId>& ids) {
    return ids.empty() ? std::string("std::span<double>") : std::string("std::span<double> metrics");
  };
  emit_function(functions, "One optimizer step.",
                "void train_step(const meshrt::StepInput& input, " + metrics(program.metrics) + ")",
                begin_step.text() + routines["train_step"] + metric_lines(context, program.metrics));
  const std::string carried = carried_lines(context);
  emit_function(functions, "Evaluation: sums and counts over batches, then the metrics over all of them.",
                "void carried(std::vector<meshrt::Carried>&" + std::string(carried.empty() ? "" : " all") + ")",
                carried);
  emit_function(functions, "", "void evaluate_step()", routines["evaluate_step"]);
  emit_function(functions, "", "void evaluate_finish(" + metrics(program.evaluated) + ")",
                routines["evaluate_finish"] + metric_lines(context, program.evaluated));
  for (const auto& [rate, name] : context.rates)
    emit_function(functions, "The learning rate of this step: the run file's, else the spec's.",
                  "double " + name + "() const", rate_lines(rate));

  CppWriter out;
  emit_header(context, out, options);
  out.line(R"(#include "meshrt/emitted.h")");
  out.blank();
  out.line("namespace {");
  out.blank();
  out.line("using meshrt::Gathered, meshrt::Reduce, meshrt::Scattered, meshrt::Stack, meshrt::Type, meshrt::Whole;");
  emit_dims(context, out);
  emit_info(context, out, options);
  out.section(context.graph().model + " on one rank");
  {
    const auto block = out.block("struct " + model + " : meshrt::Model<arena_bytes, own_bytes>", ";");
    CppWriter head(member_depth);
    head.line("explicit " + model + "(meshrt::Rank& rank) : Model(rank, program_info()) {}");
    emit_place(context, head);
    out.insert(head.text());
    out.insert("\n" + members.text());
    out.insert("\n" + functions.text());
  }
  emit_function(out, "", "std::unique_ptr<meshrt::Program> make()",
                "  return std::make_unique<meshrt::Emitted<" + model + ", program_info>>();\n", 0);
  out.blank();
  out.line("}  // namespace");
  out.blank();
  out.line("int main(int argc, char** argv) { return meshrt::run_main(argc, argv, make); }");
  return out.text();
}

}  // namespace mesh
