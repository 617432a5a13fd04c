// Blocks that went from thread to thread, kept for the next ones of their size.
//
// An object's bytes are allocated by who reads it from the network and freed by who has told the
// last handler of it. To the allocator that is the dearest case: both lock its heap, and wait for
// each other. Here a block changes hands under a lock that is held for a few instructions. What is
// kept is bounded, and freed where nobody takes it for a while; ReturnFreeMemory (base/process.h)
// gives all of it up.
//
// Thread-safe.
//
//   std::string bytes = TakeBlock(9000);  // empty, with room for at least as many
//   bytes = ...;
//   GiveBlock(std::move(bytes));
#pragma once

#include <cstddef>
#include <string>

namespace larder {

std::string TakeBlock(size_t room);
// Keeps it, if it came from TakeBlock and there is room.
void GiveBlock(std::string bytes);
void DropSpareBlocks();
// What is kept now.
size_t SpareBlockBytes();

}  // namespace larder
