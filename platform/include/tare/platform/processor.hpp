// Chooses the processor's folder, here and nowhere else. A processor is supported once its folder
// has each file that amd64/ has; a file that is missing stops only what includes it.

#pragma once

#if defined(__x86_64__)
#define TARE_PROCESSOR amd64
#elif defined(__aarch64__)
#define TARE_PROCESSOR arm64
#else
#error "Tare does not know this processor: platform/include/tare/platform/ has a folder for each"
#endif

#define TARE_QUOTED(text) #text
// clang-format off: blanks would become part of the name
#define TARE_PROCESSOR_PATH(folder, file) TARE_QUOTED(tare/platform/folder/file)
// clang-format on
#define TARE_EXPANDED(macro, ...) macro(__VA_ARGS__)
#define TARE_OF_PROCESSOR(file) TARE_EXPANDED(TARE_PROCESSOR_PATH, TARE_PROCESSOR, file)
