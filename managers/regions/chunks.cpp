// The reaps of the shims, and the chunks of their plain regions. Both are of one cache, which is to
// be there once: so this is the only file that contains it.

#include "bump_region.hpp"
#include "reap.cpp"

namespace tare::regions {

reap::Chunk* TakeChunk(std::size_t bytes) { return reap::TakeChunk(bytes); }

void GiveChunk(reap::Chunk* chunk) {
  chunk->touched = chunk->End();
  reap::PutChunk(chunk);
}

}  // namespace tare::regions
