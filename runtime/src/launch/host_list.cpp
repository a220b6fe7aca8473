#include "launch/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "meshrt/failure.h"

namespace meshrt {

namespace {

int parse_slots(const std::string& digits, const std::string& where) {
  const bool good =
      !digits.empty() && digits.size() <= 6 && digits.find_first_not_of("0123456789") == std::string::npos;
  const int slots = good ? std::stoi(digits) : 0;
  if (slots < 1) throw Failure(Cause::usage, fmt::format("{}: `{}` is no number of ranks", where, digits));
  return slots;
}

// "a:4", "[fe80::1]:4", "a", "fe80::1"
HostSlots parse_host(const std::string& word, const std::string& where) {
  HostSlots host{word, 0};
  const size_t colon = word.rfind(':'), close = word.rfind(']');
  const bool bracketed = word.starts_with('[') && close != std::string::npos;
  if (bracketed) host.name = word.substr(1, close - 1);
  const bool counted = bracketed ? colon == close + 1 : colon != std::string::npos && word.find(':') == colon;
  if (counted) {
    if (!bracketed) host.name = word.substr(0, colon);
    host.slots = parse_slots(word.substr(colon + 1), where);
  }
  // A name goes to ssh, which would take a dash for an option.
  if (host.name.empty() || host.name.front() == '-')
    throw Failure(Cause::usage, fmt::format("{}: `{}` is no host; write NAME or NAME:RANKS", where, word));
  return host;
}

// A host that is named again has more slots.
void add(std::vector<HostSlots>& hosts, const HostSlots& host) {
  const auto at = std::ranges::find(hosts, host.name, &HostSlots::name);
  if (at == hosts.end()) hosts.push_back(host);
  else at->slots = std::max(1, at->slots) + std::max(1, host.slots);
}

}  // namespace

std::vector<HostSlots> parse_hosts(const std::string& list) {
  std::vector<HostSlots> hosts;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) add(hosts, parse_host(word, "--hosts"));
  if (hosts.empty()) throw Failure(Cause::usage, "--hosts names no host");
  return hosts;
}

std::vector<HostSlots> parse_host_file(const std::string& text, const std::string& path) {
  std::vector<HostSlots> hosts;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = fmt::format("{}:{}", path, ++number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    HostSlots host = parse_host(word, where);
    while (words >> word) {
      if (word.starts_with("slots=")) host.slots = parse_slots(word.substr(6), where);
      else if (!word.starts_with("max_slots=") && !word.starts_with("max-slots="))
        throw Failure(Cause::usage,
                      fmt::format("{}: what does `{}` mean? A line is `NAME slots=4` or `NAME:4`", where, word));
    }
    add(hosts, host);
  }
  if (hosts.empty()) throw Failure(Cause::usage, fmt::format("{} names no host", path));
  return hosts;
}

Placement place_ranks(const std::vector<HostSlots>& listed, const RankCounts& counts) {
  std::vector<HostSlots> hosts = listed;
  if (counts.hosts > static_cast<int>(hosts.size()))
    throw Failure(Cause::usage, fmt::format("--nnodes {}, but there are only {} hosts", counts.hosts, hosts.size()));
  if (counts.hosts > 0) hosts.resize(counts.hosts);
  const int number = static_cast<int>(hosts.size());
  if (counts.per_host > 0) {
    for (HostSlots& host : hosts) host.slots = counts.per_host;
  } else if (std::ranges::none_of(hosts, &HostSlots::slots) && counts.ranks > 0) {
    for (int i = 0; i < number; ++i) hosts[i].slots = counts.ranks / number + (i < counts.ranks % number);
  } else {
    for (HostSlots& host : hosts) host.slots = std::max(1, host.slots);
  }
  int slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  const int ranks = counts.ranks > 0 ? counts.ranks : slots;
  if (ranks > slots)
    throw Failure(Cause::usage, fmt::format("-n {}, but the {} host{} have {} slots: write NAME:RANKS, or "
                                            "--nproc-per-node",
                                            ranks, number, number == 1 ? "" : "s", slots));
  Placement placement;
  for (const HostSlots& host : hosts) {
    const int here = std::min(host.slots, ranks - placement.ranks());
    if (here == 0) continue;
    placement.host_of_rank.insert(placement.host_of_rank.end(), here, static_cast<int>(placement.hosts.size()));
    placement.hosts.push_back(host.name);
  }
  return placement;
}

}  // namespace meshrt
