set pagination off
set confirm off
set width 0
set print address off
set print inferior-events off
set debuginfod enabled off
set startup-with-shell off
# The debugger is what is measured; the program it debugs runs without the manager.
unset environment LD_PRELOAD
unset environment LD_AUDIT
