#pragma once

// It begins at the thread pointer; storage lies below.
enum { TARE_THREAD_RECORD_IS_ABOVE = 1 };
