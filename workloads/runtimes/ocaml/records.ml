(* Chains of records in a table, in OCaml: the same work as the other programs of the folder above.

   records [ITERATIONS] [SLOTS] [RECORDS] *)

external clock : int -> int = "tare_clock" [@@noalloc]

let monotonic = 1
let process = 2
let most_depth = 8
let mask = 0xffffffff

type record = {
  key : int;
  values : int array;
  depth : int;
  next : record option;
  mutable previous : record option;
}

let make key depth following =
  let values = [| key; key lxor 1; key lxor 2; key lxor 3 |] in
  let made = { key; values; depth; next = following; previous = None } in
  Option.iter (fun each -> each.previous <- Some made) following;
  made

let rec add digest = function
  | None -> digest
  | Some each -> add (((digest * 31) + each.values.(each.depth land 3)) land mask) each.next

(* Makes records, each in front of the chain of a slot, and drops chains that are long. *)
let iterate slots records =
  let table = Array.make slots None in
  let state = ref 1 and digest = ref 0 in
  for _ = 1 to records do
    state := ((!state * 1664525) + 1013904223) land mask;
    let slot = (!state lsr 8) mod slots in
    let record =
      match table.(slot) with
      | Some old as following when old.depth < most_depth -> make !state (old.depth + 1) following
      | _ -> make !state 0 None
    in
    table.(slot) <- Some record;
    digest := add !digest record.next
  done;
  !digest

let () =
  let given place default =
    if Array.length Sys.argv > place then int_of_string Sys.argv.(place) else default
  in
  let iterations = given 1 12 and slots = given 2 20_000 and records = given 3 200_000 in
  let times = Buffer.create 4096 and digest = ref 0 in
  Buffer.add_string times "iteration,start_ns,end_ns,cpu_ns\n";
  for number = 0 to iterations - 1 do
    let start = clock monotonic and cpu = clock process in
    digest := iterate slots records;
    let stop = clock monotonic and used = clock process - cpu in
    Buffer.add_string times (Printf.sprintf "%d,%d,%d,%d\n" number start stop used)
  done;
  Option.iter
    (fun path ->
      let file = open_out path in
      Buffer.output_buffer file times;
      close_out file)
    (Sys.getenv_opt "TARE_ITERATIONS");
  Printf.printf "%08x\n" !digest
