-- The objects of a heap trace, with all moments as clocks, for DuckDB. NAME.tare is the trace.
create view objects as
select *,
  birth_instructions + lag_instructions as first_use_instructions,
  birth_nanoseconds + lag_nanoseconds as first_use_nanoseconds,
  birth_bytes + lag_bytes as first_use_bytes,
  first_use_instructions + use_instructions as last_use_instructions,
  first_use_nanoseconds + use_nanoseconds as last_use_nanoseconds,
  first_use_bytes + use_bytes as last_use_bytes,
  birth_instructions + need_instructions as before_teardown_instructions,
  birth_nanoseconds + need_nanoseconds as before_teardown_nanoseconds,
  birth_bytes + need_bytes as before_teardown_bytes,
  birth_instructions + reach_instructions as unreachable_instructions,
  birth_nanoseconds + reach_nanoseconds as unreachable_nanoseconds,
  birth_bytes + reach_bytes as unreachable_bytes,
  coalesce(last_use_instructions, birth_instructions) + rest_instructions as free_instructions,
  coalesce(last_use_nanoseconds, birth_nanoseconds) + rest_nanoseconds as free_nanoseconds,
  coalesce(last_use_bytes, birth_bytes) + rest_bytes as free_bytes
from 'NAME.tare/objects.parquet';
