// address.h: finding the other hosts of a job: listening where they can reach this one, and connecting to a host with
// an error that names the address.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launch/descriptor.h"

namespace meshrt {

/// "host:port", "10.0.0.1:7", "[fe80::1]:7".
struct Address {
  std::string host;
  int port = 0;
  std::string text() const;
};
/// Throws Failure (Cause::usage) that calls the text by `what`.
Address parse_address(const std::string& text, const std::string& what);
/// Of several, with commas between them.
std::vector<Address> parse_addresses(const std::string& text, const std::string& what);

/// A socket that listens at `port` (0: a free one) of `host`, or of all interfaces when it is empty. Throws Failure
/// (Cause::environment).
Descriptor listen_at(const std::string& host, int port);
int port_of(int socket);

/// Tries all addresses in turn until one answers. `goes_on` is asked between; false ends it. Throws Failure
/// (Cause::environment) naming them, and why the last try failed.
Descriptor connect_to(const std::vector<Address>& addresses, std::chrono::milliseconds limit);

/// The address of this host from which packets to `host` leave; none when the name of `host` cannot be resolved or
/// there is no way there.
std::optional<std::string> address_towards(const std::string& host);
/// Those of this host's interfaces that are up, without loopback unless there is nothing else.
std::vector<std::string> own_addresses();
/// The interface that has an address of this host; empty when none has.
std::string interface_of(const std::string& address);

/// Of this host to itself.
bool is_loopback(const std::string& address);

/// Of a connected socket.
std::string own_address_of(int socket);
std::string peer_name(int socket);

}  // namespace meshrt
