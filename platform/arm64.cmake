# For CMAKE_TOOLCHAIN_FILE: builds for arm64 with Debian's cross compiler, against the libraries of
# the root TARE_SYSROOT.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_SYSROOT $ENV{TARE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
# What has a configure script of its own.
set(TARE_C_OPTIONS --sysroot=${CMAKE_SYSROOT})
set(TARE_CONFIGURE_HOST --host=aarch64-linux-gnu)
