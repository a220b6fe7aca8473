// machine.h: the named machine by whose costs placements are chosen (YAML; language.md 22). Nothing measured is picked
// up silently.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "frontend/diagnostic.h"
#include "frontend/source.h"

namespace mesh {

struct Machine {
  std::string name = "generic";
  double gflops_f32 = 100, gflops_f64 = 50, gflops_bf16 = 100;  // a core
  double memory_gbs = 12;                                       // a core
  int64_t node_ranks = 64;                                      // consecutive ranks that share a host
  double node_latency_us = 1, node_gbs = 10;                    // between ranks of a host
  double network_latency_us = 5, network_gbs = 3;               // between hosts, a rank's share
  double node_memory_gib = 0;                                   // of a host, shared by its ranks; 0: not said
  std::string hash;  // of the text it was read from; empty for the generic one
};

/// Reads `name, gflops {f32, f64, bf16}, memory_gbs, node {ranks, latency_us, gbs, memory_gib}, network {latency_us,
/// gbs}`; keys that are absent keep the generic machine's values. The file becomes one of the sources, so that messages
/// show its lines. Nothing, and errors E0601 (cannot be read) or E0602 (the line), when it is wrong.
std::optional<Machine> read_machine(const std::string& path, SourceMap&, DiagnosticSink&);

}  // namespace mesh
