include("${CMAKE_CURRENT_LIST_DIR}/tare-reap-targets.cmake")
