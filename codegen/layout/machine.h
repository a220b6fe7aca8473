// machine.h: the named machine by whose costs placements are chosen (YAML). Nothing measured is picked
// up silently.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontend/diagnostic.h"
#include "frontend/source.h"

namespace mesh {

/// How fast bytes go, by how many go at once: those that a rank sends in one call over a link, those that an op touches
/// in memory.
struct Rate {
  struct Point {
    int64_t bytes;
    double gbs;
  };
  std::vector<Point> points;  // by size, at least one; of one the size means nothing

  /// Without latency. Between two points time grows evenly; below the first and above the last their rates hold.
  double seconds(double bytes) const;
  double fastest() const;  // GB/s
  double of_most() const { return points.back().gbs; }
};

struct Link {
  double latency_us = 0;  // of a round
  Rate gbs;
};

/// How long ranks that come from work wait for one another in a call, on average: by how long they worked.
struct Meetings {
  struct Point {
    double work_us, wait_us;
  };
  std::vector<Point> points;  // by work; none: they do not wait

  /// From no work to the first point, and between two, it grows evenly; above the last it stays.
  double seconds(double work) const;
};

/// What joins ranks.
struct Links {
  Link together;             // all ranks of a group send at once
  std::optional<Link> send;  // from one rank to another; nothing: the same
  Meetings meetings = {};
  const Link& sends() const { return send ? *send : together; }
};

struct Machine {
  std::string name = "generic";
  double gflops_f32 = 100, gflops_f64 = 50, gflops_bf16 = 100;  // a core
  std::optional<double> gflops_attention;                       // in f32, a core; nothing: as products
  std::optional<double> gflops_attention_bf16;                  // of bf16; nothing: as in f32
  std::optional<double> gflops_elementwise;                     // of all other ops, likewise
  Rate memory{{{1, 12}}};                                       // a core, by what an op touches
  int64_t node_ranks = 64;                                      // consecutive ranks that share a host
  Links node{{1, {{{1, 10}}}}, {}};                             // between ranks of a host
  Links network{{5, {{{1, 3}}}}, {}};                           // between hosts, a rank's share
  double node_memory_gib = 0;                                   // of a host, shared by its ranks; 0: not said
  std::string hash;  // of the text it was read from; empty for the generic one
};

/// Reads `name, gflops {f32, f64, bf16, attention, attention_bf16, elementwise}, memory_gbs, node {ranks, latency_us,
/// gbs, send, meeting_us, memory_gib}, network {latency_us, gbs, send, meeting_us}`; keys that are absent keep the
/// generic machine's values. `gbs` is a number, or a map from sizes to numbers; `meeting_us` a number (after 1 ms of
/// work), or a map from times of work; `send` has a latency_us and gbs of its own. The file becomes one of the sources,
/// so that messages show its lines. Nothing, and errors E0601 (cannot be read) or E0602 (the line), when it is wrong.
std::optional<Machine> read_machine(const std::string& path, SourceMap&, DiagnosticSink&);

}  // namespace mesh
