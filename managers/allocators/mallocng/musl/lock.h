/* A lock in one word, as musl's are: one that nobody holds may be unlocked. */

#pragma once

void tare_lock(int* word);
void tare_unlock(int* word);

#define LOCK(words) tare_lock(words)
#define UNLOCK(words) tare_unlock(words)
