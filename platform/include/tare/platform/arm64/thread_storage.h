#pragma once

// It ends at the thread pointer; storage lies above.
enum { TARE_THREAD_RECORD_IS_ABOVE = 0 };
