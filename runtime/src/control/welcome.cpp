#include "control/welcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "control/packing.h"

namespace meshrt {

namespace {

void pack(Packer& to, const Placement& placement) {
  to.numbers(placement.host_of_rank);
  to.texts(placement.hosts);
  to.text(placement.interface);
  to.text(placement.address);
}

Placement unpack_placement(Unpacker& from) {
  Placement placement;
  placement.host_of_rank = from.numbers();
  placement.hosts = from.texts();
  placement.interface = from.text();
  placement.address = from.text();
  const int hosts = static_cast<int>(placement.hosts.size());
  if (placement.host_of_rank.empty() ||
      std::ranges::any_of(placement.host_of_rank, [&](int host) { return host < 0 || host >= hosts; }))
    throw Failure(Cause::environment, "a message between launchers names a host that is not there");
  return placement;
}

Carrier unpack_carrier(Unpacker& from) {
  const int32_t number = from.number();
  if (number < 0 || number > static_cast<int32_t>(Carrier::both))
    throw Failure(Cause::environment, "a message between launchers names an unknown transport");
  return static_cast<Carrier>(number);
}

Binding unpack_binding(Unpacker& from) {
  const int32_t number = from.number();
  if (number < 0 || number > static_cast<int32_t>(Binding::none))
    throw Failure(Cause::environment, "a message between launchers names an unknown way to place ranks");
  return static_cast<Binding>(number);
}

void check_version(Unpacker& from) {
  if (from.number() != protocol_version)
    throw Failure(Cause::environment,
                  "the launcher of this rank is of another version: build meshrun and the program anew");
}

}  // namespace

Carrier choose_carrier(std::string transport, bool one_host) {
  if (const char* chosen = std::getenv("MESHRT_TRANSPORT"); transport.empty() && chosen) transport = chosen;
  if (transport == "ucx") return Carrier::ucx;
  if (!transport.empty() && transport != "arena")
    throw Failure(Cause::usage, fmt::format("there is no transport '{}'; choose arena or ucx", transport));
  if (!one_host && transport == "arena")
    throw Failure(Cause::usage, "the transport arena is memory of one host; between hosts leave it out, or choose ucx");
  return one_host ? Carrier::arena : Carrier::both;
}

std::string pack(const Welcome& welcome) {
  Packer to;
  to.number(protocol_version);
  to.number(welcome.rank);
  to.number(welcome.cpus);
  to.number(static_cast<int32_t>(welcome.carrier));
  pack(to, welcome.placement);
  return to.bytes();
}

Welcome unpack_welcome(std::string_view bytes) {
  Unpacker from(bytes);
  check_version(from);
  Welcome welcome;
  welcome.rank = from.number();
  welcome.cpus = from.number();
  welcome.carrier = unpack_carrier(from);
  welcome.placement = unpack_placement(from);
  if (welcome.rank < 0 || welcome.rank >= welcome.ranks())
    throw Failure(Cause::environment, "a message between launchers names a rank that is not there");
  return welcome;
}

std::string pack(const HostJob& job) {
  Packer to;
  to.number(protocol_version);
  pack(to, job.placement);
  to.number(job.host);
  to.number(static_cast<int32_t>(job.carrier));
  to.texts(job.command);
  to.texts(job.environment);
  to.text(job.folder);
  to.text(job.log_folder);
  to.number(job.tag_output);
  to.number(static_cast<int32_t>(job.binding));
  return to.bytes();
}

HostJob unpack_host_job(std::string_view bytes) {
  Unpacker from(bytes);
  check_version(from);
  HostJob job;
  job.placement = unpack_placement(from);
  job.host = from.number();
  job.carrier = unpack_carrier(from);
  job.command = from.texts();
  job.environment = from.texts();
  job.folder = from.text();
  job.log_folder = from.text();
  job.tag_output = from.number() != 0;
  job.binding = unpack_binding(from);
  if (job.host < 0 || job.host >= static_cast<int>(job.placement.hosts.size()))
    throw Failure(Cause::environment, "a message between launchers names a host that is not there");
  return job;
}

}  // namespace meshrt
