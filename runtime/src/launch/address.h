// address.h: finding the other hosts of a job: listening where they can reach this one, and connecting to a host with
// an error that names the address.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "system/descriptor.h"

namespace meshrt {

/// "host:port", "10.0.0.1:7", "[fe80::1]:7"; of this host alone "@name" (local_name.h), which has no port.
struct Address {
  std::string host;
  int port = 0;
  bool is_local_name() const { return host.starts_with('@'); }
  std::string text() const;
};
/// Throws Failure (Cause::usage) that calls the text by `what`.
Address parse_address(const std::string& text, const std::string& what);
/// Of several, with commas between them.
std::vector<Address> parse_addresses(const std::string& text, const std::string& what);

/// Sockets that listen at one port (0: a free one) of each of `hosts`, or under the one name "@name". Those where it
/// cannot be are left out. Throws Failure (Cause::environment) when it can be nowhere.
std::vector<Descriptor> listen_at(const std::vector<std::string>& hosts, int port);
/// 0 where it listens under a name.
int port_of(int socket);

/// Tries all addresses in turn until one answers. `goes_on` is asked between; false ends it. Throws Failure
/// (Cause::environment) naming them, and why the last try failed.
Descriptor connect_to(const std::vector<Address>& addresses, std::chrono::milliseconds limit);

/// The address of this host from which packets to `host` leave; none when the name of `host` cannot be resolved or
/// there is no way there.
std::optional<std::string> address_towards(const std::string& host);
/// Those of this host's interfaces that are up, without loopback unless there is nothing else.
std::vector<std::string> own_addresses();
/// Where this host has to listen so that others reach it as `host`: what that means here; where that is loopback, or
/// none of its own addresses, these too.
std::vector<std::string> addresses_as(const std::string& host);
/// The interface that has an address of this host; empty when none has.
std::string interface_of(const std::string& address);

/// Of this host to itself, by number or as `localhost`.
bool is_loopback(const std::string& address);

/// Of a connected socket.
std::string own_address_of(int socket);
std::string peer_name(int socket);
std::string peer_host(int socket);  ///< without its port

}  // namespace meshrt
