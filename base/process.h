// What a process of ours does first of all, in main().
#pragma once

namespace larder {

// Files are for their owner only, whatever the caller's habits; and the heap stays close to what is
// in use. glibc keeps a heap for each of up to eight threads a core, and memory that one thread
// freed does not serve the others: an informer's first start is fifty threads that hand megabytes
// to each other. Nothing where the allocator is another one (jemalloc, tcmalloc).
//
// For programs, not for libraries: the allocator belongs to the whole process.
void PrepareProcess();

}  // namespace larder
