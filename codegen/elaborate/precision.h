// precision.h: `precision mixed { compute: bf16, params: f32, reduce: f32 }`, and what --precision chooses.
#pragma once
#include <optional>
#include <string>

#include "frontend/diagnostic.h"
#include "frontend/imports.h"
#include "meshrt/types.h"

namespace mesh {

/// What the loss is multiplied by for its gradients (optimizer/loss_scale.h); what a dynamic one starts from.
struct LossScale {
  double start;
  bool dynamic;
};

/// What a program computes in, and keeps. All else is f32, but where all of it is f64.
struct Precision {
  bool f64 = false;                           // for tests
  meshrt::Type products = meshrt::Type::f32;  // what they read their operands in
  meshrt::Type params = meshrt::Type::f32;    // what parameters are kept in
  meshrt::Type sums = meshrt::Type::f32;      // what ranks add up gradients in
  std::optional<LossScale> loss_scale = {};
};

/// The one called so, of the spec's blocks, or a type: "f32", "f64", and "bf16" and "f16", which say it of every key;
/// an empty name is f32. Reports every mistake of the blocks, chosen or not: E0341, E0342.
Precision resolve_precision(const SourceProgram&, const std::string& name, DiagnosticSink&);

}  // namespace mesh
