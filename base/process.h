// What a process of ours does first of all, in main().
#pragma once

#include <string_view>

namespace larder {

// Files are for their owner only, whatever the caller's habits.
void KeepFilesPrivate();

// The same, and the heap of a process that stays stays close to what is in use. glibc keeps up to
// eight heaps a core, and memory that one thread freed does not serve the others: an informer's
// first start is fifty threads that hand megabytes to each other. One heap for every eight cores
// took no more time, and two thirds of the memory. Nothing where the allocator is another one
// (jemalloc, tcmalloc).
//
// For programs, not for libraries: the allocator belongs to the whole process.
void PrepareProcess();

// Gives pages back that nothing stands on: under a millisecond for a heap of a gigabyte, 80 where
// half of it is free in small pieces. Nothing in a process that was not prepared.
void ReturnFreeMemory();

// The environment variable holds what no program that we start should have: a key. From now on
// HiddenFromPrograms says so of it. Thread-safe.
void HideFromPrograms(std::string_view variable);
bool HiddenFromPrograms(std::string_view variable);

// From now on no core dump puts this process's memory on the disk, and only root can attach a
// debugger: for who holds what must not stand there in the clear.
void LeaveNoCoreDump();

// Log lines of all loggers begin with the time in RFC 3339, in UTC ("2026-11-17T09:30:00.123Z"), as
// the API server's objects have it: two machines' logs can be put side by side.
void UseLogFormat();

}  // namespace larder
