// shared_folder.h: whether a path is one folder for all ranks. Where each host has its own, every rank writes its part
// of a checkpoint where no other one looks, and nobody notices before it is read.
#pragma once
#include <chrono>

#include "meshrt/checkpoint.h"
#include "meshrt/rank.h"

namespace meshrt {

/// Rank 0 writes a file into the folder, which it has made, and takes it away again when all have looked for it, for
/// `patience` at most: a network file system may show a host what others write a little later. Where some rank does not
/// find it, rank 0 throws Failure (Cause::environment) that names ranks and hosts. Collective.
void require_shared_folder(Rank& rank, const CheckpointFolder& folder,
                           std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace meshrt
