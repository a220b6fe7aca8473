// emit_one_pass.cpp: gradients summed, parameters updated and gathered in one pass: a call for each value, with its
// update as a function of a stretch.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/emit_calls.h"
#include "codegen/emit/outline.h"
#include "codegen/graph/builder.h"
#include "codegen/program/extent.h"
#include "codegen/program/overlap.h"

namespace mesh {

namespace {

/// The pass of these plans, planned with them.
std::string planned_pass(EmitContext& context, const std::string& scatter, const std::string& gather) {
  const std::string call = fmt::format("meshrt::OnePass({}{})", scatter.empty() ? "" : scatter + ", ", gather);
  auto known = std::ranges::find(context.plans, call, &EmittedPlan::call);
  if (known == context.plans.end())
    known = context.plans.insert(
        known,
        {context.names.reserve("one_pass_" + gather.substr(gather.find("gather_") + 7)), call, {}, "meshrt::OnePass"});
  return known->name;
}

}  // namespace

void emit_one_pass(EmitContext& context, CppWriter& out, const OnePassStep& pass) {
  const Step& gather = pass.body.back();
  const Step* const scatter = movements(pass.body.front()).empty() ? nullptr : &pass.body.front();
  if (scatter) emit_reasons(context, out, *scatter);
  emit_reasons(context, out, gather);
  const std::string sums = scatter ? plan_of(context, *scatter) : "";
  const std::string name = planned_pass(context, sums, plan_of(context, gather));
  const auto type = [&](const Access& access) { return cpp_type(context.program.buffer(access.buffer).type); };
  const auto held = [&](const Access& access) { return storage(context.program, access.buffer); };
  out.line(name + ".begin();");
  for (size_t i = 0; i < movements(gather).size(); ++i) {
    const Access& next = movements(gather)[i].from;
    const Access* const sum = scatter ? &movements(*scatter)[i].to : nullptr;
    const Nest& nest = std::get<Nest>(pass.body[i + (scatter ? 1 : 0)].what);
    const std::string call =
        context.outline->call(nest, {sum ? std::optional(held(*sum)) : std::nullopt, held(next), "at"});
    out.lambda(
        fmt::format("{}.update<{}, {}>({}, [&](const auto& at)", name, sum ? type(*sum) : type(next), type(next), i),
        call, ");");
  }
  out.line(name + ".end();");
}

}  // namespace mesh
